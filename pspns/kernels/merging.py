"""Merging rows of rising numbers: one walk along both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pspns.kernels._compiled import compiled, prange

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@compiled(lambda starts_a, a, starts_b, b, n_common: a.size + b.size)
def count_common(starts_a: Ints, a: Ints, starts_b: Ints, b: Ints, n_common: Ints) -> None:
    """Fill `n_common[r]` with how many numbers row r of both has; row r of a is `a[starts_a[r] : starts_a[r + 1]]`."""
    for row in prange(len(n_common)):
        i, j, n = starts_a[row], starts_b[row], 0
        while i < starts_a[row + 1] and j < starts_b[row + 1]:
            n += a[i] == b[j]
            i, j = i + (a[i] <= b[j]), j + (b[j] <= a[i])
        n_common[row] = n


@compiled(lambda starts_a, a, starts_b, b, *_: a.size + b.size)
def merge_rows(
    starts_a: Ints, a: Ints, starts_b: Ints, b: Ints, starts: Ints, merged: Ints, is_in_a: Flags, is_in_b: Flags
) -> None:
    """Fill `merged[starts[r] : starts[r + 1]]` with every number of row r of either, once, rising, and whose it is."""
    for row in prange(len(starts) - 1):
        i, j = starts_a[row], starts_b[row]
        for place in range(starts[row], starts[row + 1]):
            from_a = j == starts_b[row + 1] or (i < starts_a[row + 1] and a[i] <= b[j])
            from_b = i == starts_a[row + 1] or (j < starts_b[row + 1] and b[j] <= a[i])
            merged[place] = a[i] if from_a else b[j]
            is_in_a[place], is_in_b[place] = from_a, from_b
            i, j = i + from_a, j + from_b
