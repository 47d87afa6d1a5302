"""The 0/1 matrix of train on disk: distinct pairs sorted by user, then item, read a few users at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pspns.csr import to_torch
from pspns.data.interactions import Ints
from pspns.data.split import Pairs
from pspns.out_of_core.number_file import NumberFile
from pspns.spectral import Normalised, Shard, shard_bounds

Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class SpilledMatrix:
    """Users × items as a CSR matrix whose item numbers lie in a file."""

    starts: Ints  # [users + 1] where each user's items begin
    items: NumberFile  # [pairs]
    item_degrees: Ints  # [items]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, len(self.item_degrees)

    @property
    def user_degrees(self) -> Ints:
        return np.diff(self.starts)

    def pairs_of(self, first: int, last: int) -> Pairs:
        """The pairs of the users from `first` to before `last`, who are numbered from 0 here."""
        items = self.items.read(int(self.starts[first]), int(self.starts[last]))
        users = np.repeat(np.arange(last - first), np.diff(self.starts[first : last + 1]))
        return Pairs(users, items.astype(np.int64))

    def rows_of(self, first: int, last: int) -> sparse.csr_array:
        """The same as a matrix."""
        items = self.items.read(int(self.starts[first]), int(self.starts[last]))
        starts = (self.starts[first : last + 1] - self.starts[first]).astype(np.int32)
        return _ones_at(items, starts, (last - first, self.shape[1]))

    def normalised(self, device: torch.device, transposed: Path, after_product: Callable[[], None]) -> Normalised:
        """Products with the normalised matrix; each reads every pair once, and `after_product` is called after each.

        A file is made at `transposed`, which the products read too.
        """
        shards = _ShardsOnDisk(self, NumberFile(transposed, np.int32), device, after_product)
        return Normalised(shards, _inverse_roots(self.user_degrees), _inverse_roots(self.item_degrees), device)


class _ShardsOnDisk:
    """The shards of the matrix, read anew each time; their transposes are made once and lie on disk too."""

    def __init__(
        self, matrix: SpilledMatrix, transposed: NumberFile, device: torch.device, after_product: Callable[[], None]
    ):
        self._matrix, self._transposed, self._device, self._after_product = matrix, transposed, device, after_product
        self._bounds = shard_bounds(matrix.starts)
        self._column_starts: list[Numbers] = []  # [shards][items + 1]
        for first, last in self._bounds:
            columns = sparse.csr_array(matrix.rows_of(first, last).T)
            transposed.append(columns.indices)
            self._column_starts.append(columns.indptr.astype(np.int32))

    def __iter__(self) -> Iterator[Shard]:
        for (first, last), column_starts in zip(self._bounds, self._column_starts, strict=True):
            yield self._read(first, last, column_starts)
        self._after_product()

    def _read(self, first: int, last: int, column_starts: Numbers) -> Shard:
        matrix = self._matrix
        users = self._transposed.read(int(matrix.starts[first]), int(matrix.starts[last]))
        columns = _ones_at(users, column_starts, (matrix.shape[1], last - first))
        rows = matrix.rows_of(first, last)
        return Shard(slice(first, last), to_torch(rows, self._device), to_torch(columns, self._device))


def _ones_at(places: Numbers, starts: Numbers, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(places), np.float32), places, starts), shape=shape)


def _inverse_roots(degrees: Ints) -> NDArray[np.float64]:
    return np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0.0)
