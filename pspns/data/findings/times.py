"""Times that cannot be, or tell nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pspns.data.findings._data import Data, Finding, share
from pspns.data.interactions import Floats
from pspns.data.profile import are_seconds, day


def odd_times(data: Data) -> Iterator[Finding]:
    if any(table.times is None for table in data.gathered.tables):
        return
    times = np.concatenate([table.times for table in data.gathered.tables if table.times is not None])
    column = f"column {data.labels['time']}"
    recorded = times[times != 0]
    if times.min() == times.max():
        yield Finding(
            "warning",
            f"every time in {column} is the same ({day(times[0]) if are_seconds(times) else f'{times[0]:.15g}'})",
            "It orders nothing, so a split by time cannot use it; --columns time= leaves it out.",
        )
        return
    if not are_seconds(recorded):
        yield Finding(
            "note",
            f"times in {column} run from {times.min():.15g} to {times.max():.15g}, which are no seconds since 1970",
            "They tell what came before what, and nothing more.",
        )
        return
    if np.ptp(recorded) <= 1:
        yield Finding(
            "warning",
            f"all times in {column} lie within one second of {day(recorded[0])}",
            "If that is when the file was written, a split by time means nothing.",
        )
    if n_zero := len(times) - len(recorded):
        yield Finding(
            "warning",
            f"pairs with time 0 in {column}: {share(n_zero, len(times))}",
            "They seem to have no time; a split by time takes them for the oldest.",
        )
    yield from _unlikely_times(recorded, data.now, column)


def _unlikely_times(times: Floats, now: float, column: str) -> Iterator[Finding]:
    odd = times[~_is_likely(times, now)]
    has_other_unit = np.zeros(len(odd), dtype=bool)
    for factor in (1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9):
        has_other_unit |= _is_likely(odd * factor, now)
    if has_other_unit.any():
        yield Finding(
            "warning",
            f"pairs whose time in {column} is in another unit than the others, so that it seems to be "
            f"{day(odd[has_other_unit][0])}: {share(int(has_other_unit.sum()), len(times))}",
            "Write all times in one unit, such as seconds; now their order is wrong.",
        )
    odd = odd[~has_other_unit]
    if n_future := int((odd > now).sum()):
        yield Finding(
            "warning",
            f"pairs with a time in the future in {column}, up to {day(odd.max())}: {share(n_future, len(times))}",
            "A split by time takes them for the newest; mend them, or leave the rows out.",
        )
    if n_old := len(odd) - n_future:
        yield Finding(
            "warning",
            f"pairs with a time before 1990 in {column}, down to {day(odd.min())}: {share(n_old, len(times))}",
            "A split by time takes them for the oldest; mend them, or leave the rows out.",
        )


def _is_likely(times: Floats, now: float) -> NDArray[np.bool_]:
    year_1990, day_of_grace = 631_152_000, 86_400  # local time may be ahead of UTC
    is_likely: NDArray[np.bool_] = (times >= year_1990) & (times <= now + day_of_grace)
    return is_likely
