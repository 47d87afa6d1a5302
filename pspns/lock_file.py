"""A file that one process holds at a time, and lets go when it ends, however that is."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path


class HeldError(Exception):
    """Another process has it: which one."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Ours while the block runs; the file goes at its end. A `HeldError` if another process has it."""
    file = _take(path)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            path.unlink()
        file.close()


def _take(path: Path) -> FileIO:
    """The file, open; in it stands who holds it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("ab+", buffering=0)  # not "w", which would empty it before it is ours
        except FileNotFoundError:
            if path.parent.exists():
                raise
            continue  # who held it before us has just removed the folder
        if not _flock(file):
            file.seek(0)
            with file:
                raise HeldError(file.read().decode() or "unknown process")
        # Whoever had the lock may have removed the file after it was opened here: then it locks nothing.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                with suppress(OSError):  # a full disk does not make the lock worse
                    file.truncate(0)
                    file.write(f"process {os.getpid()} on {platform.node()}".encode())
                return file
        file.close()


def _flock(file: FileIO) -> bool:
    """Whether the file is ours alone; where the system or the file system has no such locks, it always is."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
