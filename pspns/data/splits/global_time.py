"""One moment in time for all: the latest pairs are the test, those before them the validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Floats, Interactions
from pspns.data.split import Part
from pspns.data.splits._shares import check_shares, shares_text
from pspns.errors import DataError


@dataclass(frozen=True, kw_only=True)
class GlobalTimeSplit:
    """Pairs with equal times stay together: a cut that would part them moves to the nearest change of time,
    the later one if two are equally near. So all of train is strictly earlier than anything held out.
    """

    valid_share: float = 0.1
    """Share of all pairs held out for validation, those just before the test."""
    test_share: float = 0.1
    """Share of all pairs held out for the test, the latest."""

    def __post_init__(self) -> None:
        check_shares(self.valid_share, self.test_share)

    def assign(self, interactions: Interactions, rng: np.random.Generator) -> NDArray[np.int8]:
        """The part of each pair; nothing here is random."""
        times = interactions.times
        if times is None:
            raise DataError(
                "a split by time needs to know when each pair occurred, but the data have no times; "
                "give the column that holds them, or choose another split, such as random"
            )
        n_valid, n_test = round(len(times) * self.valid_share), round(len(times) * self.test_share)
        in_order = np.sort(times)
        test_start = _nearest_change(in_order, len(times) - n_test)
        valid_start = _nearest_change(in_order, len(times) - n_test - n_valid)
        parts = np.full(len(times), Part.TRAIN, dtype=np.int8)
        parts[times >= valid_start] = Part.VALID
        parts[times >= test_start] = Part.TEST
        for name, part, wanted in (("validation", Part.VALID, n_valid), ("the test", Part.TEST, n_test)):
            if wanted > 0 and not (parts == part).any():
                raise DataError(
                    f"the times are too coarse to cut off {wanted:,} of {len(times):,} pairs for {name}: "
                    f"only {len(np.unique(times)):,} differ, and pairs with equal times stay together; "
                    "give finer times, change the shares in [split], or choose another split, such as random"
                )
        return parts

    def describe(self) -> str:
        return f"by time {shares_text(self.valid_share, self.test_share)}"


def _nearest_change(in_order: Floats, wanted: int) -> float:
    """The time at which to cut so that about `wanted` pairs are earlier, and at least one.

    >>> _nearest_change(np.array([1.0, 1.0, 2.0, 3.0]), 1), _nearest_change(np.array([1.0, 1.0]), 2)
    (2.0, inf)
    """
    changes = np.append(np.flatnonzero(np.diff(in_order)) + 1, len(in_order))
    # Reversed, because argmin takes the first of equals: the later change wins.
    cut = changes[::-1][np.abs(changes[::-1] - wanted).argmin()]
    return float(in_order[cut]) if cut < len(in_order) else np.inf


COMPONENT = GlobalTimeSplit
