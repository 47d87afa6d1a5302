"""Positives for any trainer: as frames, Parquet, a matrix, an edge index or a torch data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.utils.data import Dataset

from pspns.data.interactions import Ids
from pspns.data.planted import PlantedWorld
from pspns.data.split import GivenSplit, Split
from pspns.errors import DataError
from pspns.model_files import id_column
from pspns.positives_quality import Quality, estimate_quality, exact_quality
from pspns.shapes import PositivePairs

PAIRS, USERS = "pairs.parquet", "users.parquet"


@dataclass(frozen=True)
class BuiltPositives:
    """Which pairs, how many copies, what user weights; numbers stand for the ids beside them."""

    pairs: PositivePairs
    user_weights: NDArray[np.float32]  # [users]
    user_ids: Ids  # [users] row of the matrix → id
    item_ids: Ids  # [items] column of the matrix → id
    facts: dict[str, Any]  # how many pairs are agreed, injected, dropped; how the SVD was made

    def frame(self) -> pl.DataFrame:
        """One row for each pair: user, item, copies, weight, observed, global."""
        pairs = self.pairs
        return pl.DataFrame(
            {
                "user": id_column(self.user_ids[pairs.users]),
                "item": id_column(self.item_ids[pairs.items]),
                "copies": pairs.copies,
                "weight": pairs.pair_weights,
                "observed": pairs.is_observed,
                "global": pairs.is_global,
            }
        )

    def users(self) -> pl.DataFrame:
        """One row for each user: user, pairs, weight."""
        n_pairs = np.bincount(self.pairs.users, minlength=len(self.user_ids))
        return pl.DataFrame({"user": id_column(self.user_ids), "pairs": n_pairs, "weight": self.user_weights})

    def write(self, folder: Path) -> None:
        """`pairs.parquet` and `users.parquet` in an existing folder."""
        self.frame().write_parquet(folder / PAIRS)
        self.users().write_parquet(folder / USERS)

    def matrix(self) -> sparse.csr_matrix:
        """Users × items, copies as values: what libraries that take confidences expect."""
        values = self.pairs.copies.astype(np.float32)
        shape = (len(self.user_ids), len(self.item_ids))
        # scipy's older class with its small indices, because the libraries that take it know no other.
        places = self.pairs.users.astype(np.int32), self.pairs.items.astype(np.int32)
        return sparse.csr_matrix((values, places), shape=shape)

    def edge_index(self) -> Tensor:
        """`[2, 2 · pairs]`: each pair as an edge from user to item and back, item nodes numbered after the users.

        Both ways, because one-way edges give users no degree, and nothing propagates.
        """
        users = torch.from_numpy(self.pairs.users)
        items = torch.from_numpy(self.pairs.items) + len(self.user_ids)
        return torch.stack([torch.cat([users, items]), torch.cat([items, users])])

    def dataset(self) -> Dataset[tuple[Tensor, Tensor, Tensor]]:
        """(user, item, loss weight) for each visit: an epoch sees each pair once for each copy."""
        return _Visits(self)

    def quality(self, truth: PlantedWorld | GivenSplit) -> Quality:
        """Accuracy and coverage: exact against a planted world, estimated against the held-out pairs of a folder."""
        if isinstance(truth, PlantedWorld):
            return exact_quality(self.pairs, self.user_ids, self.item_ids, truth)
        if not isinstance(truth, GivenSplit):
            raise DataError(
                f"quality needs a planted world, or data with held-out parts such as pspns.load gives of a folder, got "
                f"{type(truth).__name__}"
            )
        split = Split.from_parts(truth.interactions, truth.parts, truth.source)
        ids = (self.user_ids, split.user_ids[: split.n_users]), (self.item_ids, split.item_ids[: split.n_items])
        if not all(np.array_equal(built, given) for built, given in ids):
            raise DataError("these positives were built from other data; give the folder that they were built from")
        if self.facts["dropped_because_held_out"]:
            raise DataError(
                "the protocol dropped held-out pairs, so none is left to be found; build under strict for an estimate"
            )
        return estimate_quality(self.pairs, split)


class _Visits(Dataset[tuple[Tensor, Tensor, Tensor]]):
    def __init__(self, built: BuiltPositives):
        pairs = built.pairs
        self._users, self._items = torch.from_numpy(pairs.users), torch.from_numpy(pairs.items)
        self._weights = torch.from_numpy(pairs.pair_weights * built.user_weights[pairs.users])
        # Visit v belongs to the first pair whose running total of copies exceeds v: no pair is written twice.
        self._visits_up_to = np.cumsum(pairs.copies, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._visits_up_to[-1])

    def __getitem__(self, visit: int) -> tuple[Tensor, Tensor, Tensor]:
        if not 0 <= visit < len(self):
            raise IndexError(f"visit {visit} of {len(self)}")
        pair = int(np.searchsorted(self._visits_up_to, visit, side="right"))
        return self._users[pair], self._items[pair], self._weights[pair]

    def __getitems__(self, visits: list[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
        """A whole batch at once: what a DataLoader asks for."""
        wanted = np.asarray(visits, dtype=np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"visits {wanted.min()} to {wanted.max()} of {len(self)}")
        pairs = torch.from_numpy(np.searchsorted(self._visits_up_to, wanted, side="right"))
        return list(zip(self._users[pairs], self._items[pairs], self._weights[pairs], strict=True))
