"""What data look like: how many, how dense, how evenly spread over users and items."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from pspns.data.interactions import Floats, Interactions, Ints
from pspns.data.split import GivenSplit, Part

PERCENTILES = {"min": 0, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p99": 99, "max": 100}

# Seconds since 1970 of this size lie between 1973 and 5138; other numbers are no dates.
_FIRST_SECOND, _LAST_SECOND = 1e8, 1e11


@dataclass(frozen=True)
class Bin:
    """How many users (or items) have from `least` to `most` pairs."""

    least: int
    most: int
    count: int


@dataclass(frozen=True)
class Degrees:
    """How many pairs each user has, or each item."""

    mean: float
    percentiles: dict[str, int]  # as in PERCENTILES: at least that share has at most so many pairs
    histogram: tuple[Bin, ...]  # powers of two, from the lowest that occurs to the highest
    single: int  # with one pair
    below_5: int

    @classmethod
    def of(cls, counts: Ints) -> Degrees:
        # A number that occurs, not one between two: half a pair says nothing.
        cuts = np.percentile(counts, list(PERCENTILES.values()), method="inverted_cdf")
        return cls(
            mean=float(counts.mean()),
            percentiles={name: int(cut) for name, cut in zip(PERCENTILES, cuts, strict=True)},
            histogram=_histogram(counts),
            single=int((counts == 1).sum()),
            below_5=int((counts < 5).sum()),
        )


@dataclass(frozen=True)
class TimeSpan:
    first: float
    last: float
    are_seconds: bool  # since 1970; otherwise they only tell what came before what

    @classmethod
    def of(cls, times: Floats) -> TimeSpan:
        return cls(float(times.min()), float(times.max()), are_seconds(times))

    def words(self) -> str:
        """From when to when.

        >>> TimeSpan(956703932.0, 1046454590.0, are_seconds=True).words()
        '2000-04-25 to 2003-02-28'
        """
        show = day if self.are_seconds else "{:.15g}".format
        return f"{show(self.first)} to {show(self.last)}"


@dataclass(frozen=True)
class Profile:
    """Users, items and pairs of all parts together."""

    users: int
    items: int
    pairs: int
    density: float  # pairs / (users × items)
    parts: dict[str, int] | None  # part → its pairs, where parts are given
    times: TimeSpan | None
    user_degrees: Degrees
    item_degrees: Degrees
    top_1_percent_share: float  # of all pairs: those with the most popular 1 % of the items, at least one item
    top_10_percent_share: float
    item_gini: float  # 0: all items equally popular; near 1: few items have nearly all pairs

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def profile(data: Interactions | GivenSplit) -> Profile:
    """The figures of data as they were read.

    >>> found = profile(Interactions.from_arrays([1, 1, 2], [7, 8, 7]))
    >>> found.density, found.user_degrees.histogram
    (0.75, (Bin(least=1, most=1, count=1), Bin(least=2, most=3, count=1)))
    """
    given = data if isinstance(data, GivenSplit) else None
    pairs = data.interactions if isinstance(data, GivenSplit) else data
    n_users, n_items = len(pairs.user_ids), len(pairs.item_ids)
    item_counts = np.bincount(pairs.items, minlength=n_items)
    rising = np.sort(item_counts)
    return Profile(
        users=n_users,
        items=n_items,
        pairs=len(pairs),
        density=len(pairs) / (n_users * n_items),
        parts=None if given is None else _pairs_of_parts(given),
        times=None if pairs.times is None else TimeSpan.of(pairs.times),
        user_degrees=Degrees.of(np.bincount(pairs.users, minlength=n_users)),
        item_degrees=Degrees.of(item_counts),
        top_1_percent_share=_share_of_top(rising, 0.01),
        top_10_percent_share=_share_of_top(rising, 0.1),
        item_gini=_gini(rising),
    )


def are_seconds(times: Floats) -> bool:
    """Are most of the times seconds since 1970?

    >>> are_seconds(np.array([1.6e9, 1.7e9, 5.0])), are_seconds(np.array([20240531.0]))
    (True, False)
    """
    return _FIRST_SECOND <= float(np.median(times)) < _LAST_SECOND


def day(seconds: float) -> str:
    """The day of a moment, or its number where that is beyond 64 bits.

    >>> day(956703932.0), day(1e20)
    ('2000-04-25', '1e+20')
    """
    if abs(seconds) >= 2**62:
        return f"{seconds:.15g}"
    return str(np.datetime64(int(seconds // 1), "s")).partition("T")[0]


def _histogram(counts: Ints) -> tuple[Bin, ...]:
    # The binary exponent: 0 → 0, 1 → 1, 2 and 3 → 2, 4 to 7 → 3.
    exponents = np.frexp(counts)[1]
    sizes = np.bincount(exponents)
    return tuple(
        Bin(least=2**exponent // 2, most=2**exponent - 1, count=int(sizes[exponent]))
        for exponent in range(int(exponents.min()), len(sizes))
    )


def _pairs_of_parts(given: GivenSplit) -> dict[str, int]:
    sizes = np.bincount(given.parts, minlength=len(Part))
    return {part.name.lower(): int(sizes[part]) for part in Part if sizes[part]}


def _share_of_top(rising: Ints, share: float) -> float:
    n_top = int(np.ceil(len(rising) * share))
    return float(rising[-n_top:].sum() / rising.sum())


def _gini(rising: Ints) -> float:
    """Σ (2r − n − 1) x_r / (n Σ x), where x_r is the r-th smallest of n."""
    n = len(rising)
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return float((ranks * rising).sum() / (n * rising.sum()))
