"""What no file may do to the process that reads it: hang, fill the memory, or make it warn."""

from __future__ import annotations

import faulthandler
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

SECONDS = 60
MORE_BYTES = 200_000_000  # beside four times the file


@contextmanager
def guarded(path: Path | str, *, seconds: int = SECONDS) -> Iterator[None]:
    """Reading `path` ends in time, within 4 × its size + 200 MB, and without a warning."""

    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{path}: took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # Python's handlers wait for C code to come back; this does not, and ends the process with a trace.
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=sys.__stderr__)
    start = _start_measuring()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
    taken = _bytes("VmHWM") - start
    n_bytes = 0
    with suppress(OSError, ValueError):  # there may be no such file
        n_bytes = Path(path).stat().st_size
    allowed = 4 * n_bytes + MORE_BYTES
    assert taken <= allowed, f"{path}: took {taken:,} bytes of memory, allowed are {allowed:,}"


def _start_measuring() -> int:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    except OSError:
        return sys.maxsize  # it cannot be measured here
    return _bytes("VmRSS")


def _bytes(name: str) -> int:
    if not Path("/proc/self/status").exists():
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
