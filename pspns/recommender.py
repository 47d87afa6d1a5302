"""A finished model in use: the k best items for known users, new ones, and those nobody knows anything about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pspns.data.interactions import Ids
from pspns.data.split import Split
from pspns.errors import DataError, SettingsError, unknown_name
from pspns.evaluation.top_lists import TopLists, best_items
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.shapes import Scorer

if TYPE_CHECKING:
    import polars as pl


class Recommender:
    """Serves one replica of a model; knows which items everybody has already."""

    def __init__(self, scorer: Scorer, replica: int, split: Split, result: dict[str, Any]):
        self.result = result
        """What `result.json` says of the run that made this model."""
        self.split = split
        self.scorer = scorer
        self.replica = replica
        self.device = next(iter(scorer.tensors().values())).device
        self._user_numbers = _numbers(split.user_ids)
        self._item_numbers = _numbers(split.item_ids)
        counts = np.bincount(split.train.items, minlength=split.n_items)
        self._counts = torch.from_numpy(counts).to(self.device)

    def recommend(
        self,
        users: Any = None,
        *,
        items: Iterable[Any] | None = None,
        k: int = 10,
        exclude: str = "all",
    ) -> pl.DataFrame:
        """The best items as a frame: user, rank, item, score, and how they were found.

        `users` is one id or several; None means everybody. With `items` a new user is folded in from what they
        have. `how` says `model`, `folded in`, or `popularity` for someone of whom nothing is known. `exclude`
        leaves out the items a user has in all of the data, in train only, or none.
        """
        if k < 1:
            raise SettingsError(f"k must be at least 1, got {k}")
        if exclude not in ("all", "train", "none"):
            raise unknown_name("exclude", exclude, ("all", "train", "none"))
        if items is not None:
            return self._fold_in_one(users, list(items), k, exclude)
        if users is None:
            return self._for_numbers(np.arange(len(self.split.user_ids)), k, exclude)
        wanted = [users] if np.isscalar(users) else list(users)
        numbers = [self._user_numbers.get(_plain(user)) for user in wanted]
        known = np.array([number for number in numbers if number is not None], dtype=np.int64)
        frames = [self._for_numbers(known, k, exclude)] if len(known) else []
        for user, number in zip(wanted, numbers, strict=True):
            if number is None:
                frames.append(self._popular(user, k, set()))
        return _stack(frames)

    def knows_user(self, user: Any) -> bool:
        """Does the user occur in the data, in whatever part?"""
        return _plain(user) in self._user_numbers

    def _for_numbers(self, users: NDArray[np.int64], k: int, exclude: str) -> pl.DataFrame:
        split, memory = self.split, MemoryBudget(self.device)
        parts = {"all": (split.train, split.valid, split.test), "train": (split.train,), "none": ()}[exclude]
        known = ItemSets(len(split.user_ids), split.n_items, *parts, device=self.device)
        warm = users[users < split.n_users]
        frames = []
        if len(warm):
            lists = TopLists(known, self._counts, split.n_users, memory)
            best, scores = lists.best(self.scorer, self.replica, torch.from_numpy(warm).to(self.device), k)
            frames.append(self._frame(split.user_ids[warm], best, scores, "model"))
        for user in users[users >= split.n_users]:
            # Nothing in train, but held-out items tell something: treat them like a new user.
            have = np.concatenate([part.items[part.users == user] for part in (split.valid, split.test)])
            have = have[have < split.n_items]
            left_out = set(have.tolist()) if exclude == "all" else set()
            frames.append(self._fold_in(split.user_ids[user], have, k, left_out))
        return _stack(frames)

    def _fold_in_one(self, user: Any, items: Sequence[Any], k: int, exclude: str) -> pl.DataFrame:
        if user is not None and not np.isscalar(user):
            raise SettingsError("items belong to one new user; give one user id or none")
        numbers = [self._item_numbers.get(_plain(item)) for item in items]
        unknown = [item for item, number in zip(items, numbers, strict=True) if number is None]
        if unknown:
            raise DataError(
                f"{len(unknown)} of {len(items)} items are not in the model, the first is {unknown[0]!r}; "
                "give items that occur in the data it was trained on"
            )
        have = np.array([number for number in numbers if number is not None], dtype=np.int64)
        have = have[have < self.split.n_items]
        left_out = set() if exclude == "none" else set(have.tolist())
        return self._fold_in("new user" if user is None else user, have, k, left_out)

    def _fold_in(self, user: Any, have: NDArray[np.int64], k: int, left_out: set[int]) -> pl.DataFrame:
        if len(have) == 0:
            return self._popular(user, k, left_out)
        scores = self.scorer.fold_in(torch.from_numpy(have).to(self.device), self.replica)
        return self._best_of(user, scores, k, left_out, "folded in")

    def _popular(self, user: Any, k: int, left_out: set[int]) -> pl.DataFrame:
        return self._best_of(user, self._counts.float(), k, left_out, "popularity")

    def _best_of(self, user: Any, scores: Tensor, k: int, left_out: set[int], how: str) -> pl.DataFrame:
        scores = scores.clone()
        scores[sorted(left_out)] = -torch.inf
        best, values = best_items(scores[None], k)
        # Ids of one type in one column: a new user's id joins those of the model, as text if it must.
        users = np.array([_plain(user)], dtype=self.split.user_ids.dtype if self._fits(user) else object)
        return self._frame(users, best, values, how)

    def _fits(self, user: Any) -> bool:
        return isinstance(_plain(user), str) == (self.split.user_ids.dtype == object)

    def _frame(self, users: Ids, best: Tensor, scores: Tensor, how: str) -> pl.DataFrame:
        import polars as pl

        items, values = best.cpu().numpy(), scores.cpu().numpy()
        rows, ranks = np.nonzero(items >= 0)
        return pl.DataFrame(
            {
                "user": users[rows].tolist(),
                "rank": ranks + 1,
                "item": self.split.item_ids[items[rows, ranks]].tolist(),
                "score": values[rows, ranks],
                "how": [how] * len(rows),
            },
            schema={
                "user": _column_type(users),
                "rank": pl.Int32,
                "item": _column_type(self.split.item_ids),
                "score": pl.Float32,
                "how": pl.String,
            },
        )


def _numbers(ids: Ids) -> dict[Any, int]:
    return {value: number for number, value in enumerate(ids.tolist())}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _column_type(ids: Ids) -> Any:
    import polars as pl

    return {"i": pl.Int64, "u": pl.UInt64, "O": pl.String}[ids.dtype.kind]


def _stack(frames: list[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    if len({frame.schema["user"] for frame in frames}) > 1:
        frames = [frame.with_columns(pl.col("user").cast(pl.String)) for frame in frames]
    return pl.concat(frames)
