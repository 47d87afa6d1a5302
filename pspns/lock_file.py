"""A file that one process holds at a time, or several that share it; whoever ends lets it go, however that is."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

TRIES = 1000
"""How often a folder is made again that somebody else removes meanwhile."""


class HeldError(Exception):
    """Another process has it: which one, as far as that is known."""


@contextmanager
def held(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Ours while the block runs, or, if `shared`, nobody's alone; the file goes with the last who has it. A `HeldError`
    if that cannot be."""
    file = _take(path, shared=shared)
    try:
        yield
    finally:
        if _flock(file, shared=False):
            with suppress(OSError):  # Windows removes no file that is open
                path.unlink()
        file.close()


def _take(path: Path, *, shared: bool) -> FileIO:
    """The file, open; in it stands who took it."""
    n_tries = 0
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab+", buffering=0)  # not "w", which would empty it before it is ours
        except FileNotFoundError:
            n_tries += 1
            if n_tries == TRIES:
                raise
            continue  # who held it before us has just removed the folder
        if not _flock(file, shared=shared):
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


def _flock(file: FileIO, *, shared: bool) -> bool:
    """Whether the file is ours; where the system or the file system has no such locks, it always is."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
