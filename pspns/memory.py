"""Memory: how much a run may take, and a clear word before a step that would not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pspns.errors import PspnsError, SettingsError

# Of what is free; the rest is for the system and for what a stage needs beside its largest table.
SHARE = 0.8
GIB = 2**30


class MemoryBudgetError(PspnsError):
    """A step needs more memory than the run may take."""


class MemoryBudget:
    """What large tables may take together on one device."""

    def __init__(self, device: torch.device, gib: float | None = None):
        """`gib` as set by the user; unset: 80 % of what is free now, or no limit where the system does not tell."""
        if gib is not None and not gib > 0:
            raise SettingsError(f"memory_gib must be above 0, got {gib:g}")
        free = None if gib is not None else _free_bytes(device)
        self.device = device
        self.limit = gib * GIB if gib is not None else None if free is None else SHARE * free

    def check(self, needed: int, what: str, advice: str = "leave rare items out of the data") -> None:
        """Raise before starting what would not fit; `advice` is what helps beside more memory."""
        if self.limit is not None and needed > self.limit:
            raise MemoryBudgetError(
                f"{what} needs about {_in_gib(needed)} of memory on {self.device}, and the budget is "
                f"{_in_gib(self.limit)}; raise memory_gib if there is more, or {advice}"
            )

    def rows(self, bytes_per_row: int, at_least: int, at_most: int, what: str) -> int:
        """How many rows of a block fit."""
        self.check(at_least * bytes_per_row, what)
        return at_most if self.limit is None else min(at_most, int(self.limit // bytes_per_row))


@contextmanager
def named_when_it_runs_out(what: str, advice: str) -> Iterator[None]:
    """Memory that ends in the midst of something, as an error that says of what, and what helps."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Of RuntimeErrors only these: torch's own kind for GPUs, and what its allocator for the CPU says.
        is_full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
        if not is_full:
            raise
        raise MemoryBudgetError(f"{what} ran out of memory; {advice}") from error


def _in_gib(n_bytes: float) -> str:
    return f"{n_bytes / GIB:.3g} GiB"


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        # Unlike free pages, this counts those that hold cached files: Linux gives them up on demand.
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return min(int(fields["MemAvailable"].split()[0]) * 1024, _container_limit())
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _container_limit() -> int:
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return 2**62 if text == "max" else int(text)
