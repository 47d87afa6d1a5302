"""Numbers for ids as they arrive, piece by piece, and their order in the end."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pspns.data.interactions import Ids, Ints
from pspns.data.series import order_texts
from pspns.sorted_keys import distinct

Codes = NDArray[np.uint32]

# A table of all numbers below takes 64 MiB; ids of most data sets are far smaller.
SMALL = 1 << 24
_TENS = 10 ** np.arange(1, 8)


class IdNumbers:
    """Distinct ids numbered as they arrive; 7 as a number and "7" as text are one id.

    Small whole numbers are looked up in a table, everything else among categories of text: that takes three times as
    long, and about 120 bytes an id instead of 4. The first id that is no such number moves all to the categories.
    """

    def __init__(self) -> None:
        self._numbers: _SmallNumbers | None = _SmallNumbers()
        self._texts = _Texts()

    def number(self, ids: pl.Series) -> Codes:
        """The number of each id; `ids` come from `as_id_column` and hold no null."""
        if self._numbers is not None:
            small = _as_small_numbers(ids)
            if small is not None:
                return self._numbers.number(small)
            known = self._numbers.ids()
            moved = self._texts.number(pl.Series(known))
            assert np.array_equal(moved, np.arange(len(known)))
            self._numbers = None
        return self._texts.number(ids)

    def texts(self) -> pl.Series:
        """Every id as text, by its number; none if they are small numbers."""
        return self._texts.in_order_of_arrival()

    def in_order(self) -> tuple[Ids, Ints]:
        """The ids in the order of `order_ids`, and the place of each number among them."""
        return self._texts.in_order() if self._numbers is None else _sorted(self._numbers.ids())


class _SmallNumbers:
    def __init__(self) -> None:
        self._codes = np.zeros(1 << 10, np.uint32)  # id → its number plus one; 0: not met yet
        self._ids: list[Ints] = []
        self._n_ids = 0

    def number(self, ids: Ints) -> Codes:
        highest = int(ids.max(initial=0))
        if highest >= len(self._codes):
            more = np.zeros((1 << highest.bit_length()) - len(self._codes), np.uint32)
            self._codes = np.concatenate((self._codes, more))
        codes = self._codes[ids]
        fresh = distinct(ids[codes == 0])
        if len(fresh):
            self._codes[fresh] = np.arange(self._n_ids, self._n_ids + len(fresh)) + 1
            self._n_ids += len(fresh)
            self._ids.append(fresh)
            codes = self._codes[ids]
        return codes - np.uint32(1)

    def ids(self) -> Ints:
        return np.concatenate([np.empty(0, np.int64), *self._ids])


class _Texts:
    def __init__(self) -> None:
        self._dtype = pl.Categorical(pl.Categories.random())
        # polars forgets the categories once no column uses them.
        self._keeps_them = pl.Series([], dtype=pl.String).cast(self._dtype)
        self._n_ids = 0
        self._are_whole = True  # every column so far held whole numbers, not text

    def number(self, ids: pl.Series) -> Codes:
        self._are_whole &= ids.dtype.is_integer()
        codes = ids.cast(pl.String).cast(self._dtype).to_physical().to_numpy()
        self._n_ids = max(self._n_ids, int(codes.max(initial=0)) + 1) if len(codes) else self._n_ids
        return codes

    def in_order_of_arrival(self) -> pl.Series:
        # From the categories, not kept from the pieces: a text that is cut out of a piece holds all of it in memory.
        return pl.Series(np.arange(self._n_ids, dtype=np.uint32)).cat.to(self._dtype).cast(pl.String)

    def in_order(self) -> tuple[Ids, Ints]:
        texts = self.in_order_of_arrival()
        if self._are_whole:
            # Whole numbers that a file declares as such stay numbers beyond int64, too.
            for dtype in (pl.Int64, pl.UInt64):
                numbers = texts.cast(dtype, strict=False)
                if numbers.null_count() == 0:
                    return _sorted(numbers.to_numpy())
        return order_texts(texts)


def _as_small_numbers(ids: pl.Series) -> Ints | None:
    """The ids as numbers, if each is a small one that is written in the plain way: "7", not "+7", "07" or " 7"."""
    numbers = ids.cast(pl.Int64, strict=False)
    if numbers.null_count():
        return None
    values = numbers.to_numpy()
    if len(values) and not 0 <= values.min() <= values.max() < SMALL:
        return None
    if ids.dtype == pl.String and ids.str.len_bytes().sum() != _n_digits(values):
        return None  # every other way to write a number is longer than the plain one
    return values


def _n_digits(numbers: Ints) -> int:
    """Of all together."""
    highest = int(numbers.max(initial=0))
    return len(numbers) + sum(int(np.count_nonzero(numbers >= power)) for power in _TENS if power <= highest)


def _sorted(numbers: NDArray[np.generic]) -> tuple[Ids, Ints]:
    order = np.argsort(numbers)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return numbers[order], places
