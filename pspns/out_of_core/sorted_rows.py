"""Rows of pairs on disk, in any order and repeated, to a matrix on disk: dealt out by user, sorted part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pspns.data.id_numbers import Codes
from pspns.data.interactions import Ints
from pspns.out_of_core.number_file import NumberFile
from pspns.out_of_core.spilled_matrix import SpilledMatrix
from pspns.sorted_keys import distinct

# Rows that are worked on at once; sorting them takes some 40 bytes for each.
ROWS_AT_ONCE = 1 << 22

Keys = NDArray[np.int64]


class SpilledRows:
    """Pairs of codes as they come, one after the other in a file."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._rows = NumberFile(folder / "rows", np.uint32)  # user, item, user, item, …
        self._rows_of_user = np.zeros(0, np.int64)  # by code
        self.n_rows = 0

    def add(self, users: Codes, items: Codes) -> None:
        self._rows.append(np.stack((users, items), axis=1))
        counts = np.bincount(users, minlength=len(self._rows_of_user))
        counts[: len(self._rows_of_user)] += self._rows_of_user
        self._rows_of_user = counts
        self.n_rows += len(users)

    def sorted(self, user_places: Ints, item_places: Ints) -> SpilledMatrix:
        """Every pair once, sorted by user, then item, which are now called by their places; the rows are gone."""
        n_items = len(item_places)
        bounds = self._bounds(user_places)
        parts = [NumberFile(self._folder / f"part-{number}", np.int64) for number in range(len(bounds) - 1)]
        part_of_user = np.repeat(np.arange(len(parts), dtype=np.uint16), np.diff(bounds))
        for codes in self._rows.pieces(2 * ROWS_AT_ONCE):
            users, items = user_places[codes[0::2]], item_places[codes[1::2]]
            _deal(users * n_items + items, part_of_user[users], parts)
        self._rows.remove()

        kept = NumberFile(self._folder / "items", np.int32)
        degrees, item_degrees = np.zeros(len(user_places), np.int64), np.zeros(n_items, np.int64)
        for part, first, last in zip(parts, bounds[:-1], bounds[1:], strict=True):
            users, items = np.divmod(_distinct_of(part), n_items)
            part.remove()
            kept.append(items)
            degrees[first:last] = np.bincount(users - first, minlength=last - first)
            item_degrees += np.bincount(items, minlength=n_items)
        return SpilledMatrix(np.concatenate(([0], np.cumsum(degrees))), kept, item_degrees)

    def _bounds(self, user_places: Ints) -> Ints:
        """The first place of each part's users, and the number of users: a part has as many rows as fit."""
        rows = np.zeros(len(user_places), np.int64)
        rows[user_places] = self._rows_of_user
        rows_before = np.cumsum(rows) - rows
        return np.append(np.flatnonzero(np.diff(rows_before // ROWS_AT_ONCE, prepend=-1)), len(rows))


def _deal(keys: Keys, numbers: NDArray[np.uint16], parts: list[NumberFile]) -> None:
    """Append each key to the part of its number."""
    order = np.argsort(numbers, kind="stable")  # which counts, for numbers so small
    ends = np.cumsum(np.bincount(numbers, minlength=len(parts)))
    for part, rows in zip(parts, np.split(order, ends[:-1]), strict=True):
        if len(rows):
            part.append(keys[rows])


def _distinct_of(part: NumberFile) -> Keys:
    """Every key of a part once, rising."""
    keys = np.empty(0, np.int64)
    # Piece by piece, since one user may have any number of rows, if not of pairs.
    for piece in part.pieces(ROWS_AT_ONCE):
        keys = distinct(np.concatenate((keys, piece)))
    return keys
