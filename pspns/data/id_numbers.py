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
        self._texts: list[pl.Series] = []  # of each piece those not met before, in the order of their numbers
        self._n_ids = 0
        self._are_whole = True  # every column so far held whole numbers, not text

    def number(self, ids: pl.Series) -> Codes:
        """The number of each id; `ids` come from `as_id_column` and hold no null."""
        self._are_whole &= ids.dtype.is_integer()
        texts = ids.cast(pl.String)
        codes = texts.cast(self._dtype).to_physical().to_numpy()
        fresh = np.flatnonzero(codes >= self._n_ids)
        if len(fresh):
            _, first = np.unique(codes[fresh], return_index=True)
            self._texts.append(texts[fresh[first]])
            self._n_ids += len(first)
        return codes

    def texts(self) -> pl.Series:
        """Every id as text, by its number."""
        return pl.concat(self._texts) if self._texts else pl.Series([], dtype=pl.String)

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
