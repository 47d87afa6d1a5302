"""Numbers for ids as they arrive, piece by piece, and their order in the end."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pspns.data.interactions import Ids, Ints
from pspns.data.series import order_texts

Codes = NDArray[np.uint32]


class IdNumbers:
    """Distinct ids numbered in the order of their arrival; 7 as a number and "7" as text are one id."""

    def __init__(self) -> None:
        self._dtype = pl.Categorical(pl.Categories.random())
        # polars forgets the categories once no column uses them.
        self._keeps_them = pl.Series([], dtype=pl.String).cast(self._dtype)
        self._n_ids = 0
        self._are_whole = True  # every column so far held whole numbers, not text

    def number(self, ids: pl.Series) -> Codes:
        """The number of each id; `ids` come from `as_id_column` and hold no null."""
        self._are_whole &= ids.dtype.is_integer()
        codes = ids.cast(pl.String).cast(self._dtype).to_physical().to_numpy()
        self._n_ids = max(self._n_ids, int(codes.max(initial=0)) + 1) if len(codes) else self._n_ids
        return codes

    def texts(self) -> pl.Series:
        """Every id as text, by its number."""
        # From the categories, not kept from the pieces: a text that is cut out of a piece holds all of it in memory.
        return pl.Series(np.arange(self._n_ids, dtype=np.uint32)).cat.to(self._dtype).cast(pl.String)

    def in_order(self) -> tuple[Ids, Ints]:
        """The ids in the order of `order_ids`, and the place of each number among them."""
        texts = self.texts()
        ids, places = order_texts(texts)
        if ids.dtype == object and self._are_whole:
            # Whole numbers that a file declares as such stay numbers beyond int64, too.
            numbers = texts.cast(pl.UInt64, strict=False)
            if numbers.null_count() == 0:
                order = np.argsort(numbers.to_numpy())
                places[order] = np.arange(len(order))
                return numbers.to_numpy()[order], places
        return ids, places
