"""Timing two ways of doing the same thing, one after the other, so that a noisy machine disturbs both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timed:
    """One benchmark's outcome."""

    what: str
    same: str  # what was compared before timing
    reference: str
    ours_seconds: float  # median
    reference_seconds: float
    pairs: int
    target: float | None = None  # how many times faster it should be; below 1 where it does more than the reference
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than the reference."""
        return self.reference_seconds / self.ours_seconds

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if self.target is None:
            return "–"
        wanted = f"{self.target:g}×" if self.target >= 1 else f"at most {1 / self.target:.3g}× as long"
        return f"{wanted}: {'met' if self.ratio >= self.target else 'missed'}"

    def words(self) -> str:
        """One line for the screen."""
        return (
            f"{self.what}: {self.ours_seconds:.3f} s; {self.reference}: {self.reference_seconds:.3f} s; "
            f"{self.ratio:.2f} times faster (target {self.verdict}; same: {self.same})"
        )


def time_pairs(
    what: str,
    same: str,
    reference_name: str,
    ours: Callable[[], Any],
    reference: Callable[[], Any],
    check: Callable[[Any, Any], bool],
    pairs: int = 7,
    target: float | None = None,
) -> Timed:
    """Check once, then time `pairs` interleaved runs and take the medians."""
    if not check(ours(), reference()):
        raise AssertionError(f"{what}: ours and {reference_name} give different answers; no time is worth reporting")
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        for place, function in enumerate((ours, reference)):
            began = time.perf_counter()
            function()
            seconds[place].append(time.perf_counter() - began)
    return Timed(what, same, reference_name, *(statistics.median(times) for times in seconds), pairs, target)
