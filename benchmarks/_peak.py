"""Seconds and peak memory of some work, each in a process of its own, so that nothing before it counts."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 2**20


def measure(work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds, memory of the process before (MiB), and how far it rose above that at most.

    Memory is what the system counts as resident, pages of mapped files included.
    """
    # What was freed before must not be there to be used again, or it would hide what the work takes.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    base = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: imports may have had a higher one
    began = time.perf_counter()
    answer = work()
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 3),
        "base_mib": round(base / MIB),
        "peak_mib": round((_resident("VmHWM") - base) / MIB, 1),
        "answer": answer,
    }


def in_a_process(module: str, *words: object) -> dict[str, Any]:
    """What `python -m module words…` prints as JSON in its last line."""
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _resident(field: str) -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields[field].split()[0]) * 1024
