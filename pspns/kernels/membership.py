"""Which numbers are in rows of rising ones: a binary search in the row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pspns.kernels._compiled import compiled, prange

Ints = NDArray[np.int64]


@compiled(lambda starts, members, rows, wanted, is_member: 8 * wanted.size)
def mark_members(starts: Ints, members: Ints, rows: Ints, wanted: Ints, is_member: NDArray[np.bool_]) -> None:
    """Fill `is_member[n, place]`: is `wanted[n, place]` in `members[starts[r] : starts[r + 1]]` for r = `rows[n]`?"""
    for n in prange(len(wanted)):
        first, last = starts[rows[n]], starts[rows[n] + 1]
        for place in range(wanted.shape[1]):
            low, high = first, last
            while low < high:
                middle = (low + high) >> 1
                if members[middle] < wanted[n, place]:
                    low = middle + 1
                else:
                    high = middle
            is_member[n, place] = low < last and members[low] == wanted[n, place]
