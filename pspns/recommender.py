"""A finished model in use: the k best items for known users, new ones, and those nobody knows anything about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from pspns.data.interactions import Ids, Ints
from pspns.data.split import Pairs, Split
from pspns.errors import DataError, SettingsError
from pspns.evaluation.top_lists import TopLists
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.model_files import id_column
from pspns.shapes import Scorer
from pspns.top_k import best_items

EXCLUDE = ("all", "train", "none")
UNKNOWN = -1  # the number of a user whom the data do not know


@dataclass(frozen=True)
class Lists:
    """Lists for some of the users asked for."""

    places: Ints  # [users] among those asked for
    items: Tensor  # [users, k] best first, −1 where nothing is left to offer
    scores: Tensor  # [users, k]
    how: str


class Recommender:
    """Serves one replica of a model; knows which items everybody has already."""

    def __init__(
        self, scorer: Scorer, replica: int, split: Split, result: dict[str, Any], positives: Pairs | None = None
    ):
        self.result = result
        """What `result.json` says of the run that made this model."""
        self.split = split
        self.positives = split.train if positives is None else positives
        """The pairs the loss was summed over."""
        self.scorer = scorer
        self.replica = replica
        self.device = next(iter(scorer.tensors().values())).device
        self._user_numbers = _numbers(split.user_ids)
        self._item_numbers = _numbers(split.item_ids)
        self._item_column = id_column(split.item_ids)
        self._known: dict[str, ItemSets] = {}  # exclude → what is left out for whom, made when first needed
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
        leaves out the items a user has in all of the data, in train only, or none. Where fewer than k items are
        left, the list is shorter.
        """
        check_request(k, exclude)
        k = min(k, self.split.n_items)
        ids = self.split.user_ids
        if items is not None:
            if users is not None and self.knows_user(users):
                raise SettingsError(f"user {users!r} is in the data with items of their own; leave items out")
            new_user = "new user" if users is None else _as_stored(users, ids)
            return self._frame(_user_column([new_user], ids), [self._fold_in_new(items, k, exclude)])
        if users is None:
            return self._frame(id_column(ids), self._lists(np.arange(len(ids)), k, exclude))
        wanted = [_as_stored(user, ids) for user in ([users] if np.isscalar(users) else users)]
        numbers = np.array([self._user_numbers.get(user, UNKNOWN) for user in wanted], dtype=np.int64)
        return self._frame(_user_column(wanted, ids), self._lists(numbers, k, exclude))

    def knows_user(self, user: Any) -> bool:
        """Does the user occur in the data, in whatever part?"""
        return _as_stored(user, self.split.user_ids) in self._user_numbers

    def _lists(self, users: Ints, k: int, exclude: str) -> Iterator[Lists]:
        n_users = self.split.n_users
        is_trained = (users >= 0) & (users < n_users)
        if is_trained.any():
            lists = TopLists(self._left_out(exclude), self._counts, n_users, MemoryBudget(self.device))
            numbers = torch.from_numpy(users[is_trained]).to(self.device)
            yield Lists(np.flatnonzero(is_trained), *lists.best(self.scorer, self.replica, numbers, k), "model")
        for place in np.flatnonzero(~is_trained):
            # Nothing in train, but held-out items tell something: such a user is folded in like a new one.
            user = users[place : place + 1]
            known_user = torch.from_numpy(user[user != UNKNOWN]).to(self.device)
            _, have = self._left_out("all").entries(known_user)
            yield self._fold_in(have, k, leaves_out=exclude == "all", place=int(place))

    def _left_out(self, exclude: str) -> ItemSets:
        if exclude not in self._known:
            split = self.split
            # What they really have: an item that was only made up for them may be offered.
            train = split.clean_train
            parts = {"all": (train, split.valid, split.test), "train": (train,), "none": ()}[exclude]
            self._known[exclude] = ItemSets(len(split.user_ids), split.n_items, *parts, device=self.device)
        return self._known[exclude]

    def _fold_in_new(self, items: Iterable[Any], k: int, exclude: str) -> Lists:
        given = [items] if np.isscalar(items) else list(items)
        numbers = [self._item_numbers.get(_as_stored(item, self.split.item_ids)) for item in given]
        unknown = [item for item, number in zip(given, numbers, strict=True) if number is None]
        if unknown:
            raise DataError(
                f"{len(unknown)} of {len(given)} items are not in the model, the first is {unknown[0]!r}; "
                "give items that occur in the data it was trained on"
            )
        # Of an item that only the held-out parts know, the model has learnt nothing.
        trained = sorted({number for number in numbers if number is not None and number < self.split.n_items})
        have = torch.tensor(trained, dtype=torch.int64, device=self.device)
        return self._fold_in(have, k, leaves_out=exclude != "none", place=0)

    def _fold_in(self, have: Tensor, k: int, *, leaves_out: bool, place: int) -> Lists:
        scores = self.scorer.fold_in(have, self.replica) if len(have) else self._counts.float()
        if leaves_out:
            scores = scores.index_fill(0, have, -torch.inf)
        return Lists(np.array([place]), *best_items(scores[None], k), "folded in" if len(have) else "popularity")

    def _frame(self, users: pl.Series, found: Iterable[Lists]) -> pl.DataFrame:
        """One row for each item of each list, in the order in which the users were asked for."""
        frames = [_rows(lists) for lists in found]
        rows = pl.concat(frames).sort("place", "rank") if frames else _NO_ROWS
        return rows.select(
            users.gather(rows["place"]).alias("user"),
            "rank",
            self._item_column.gather(rows["item"]).alias("item"),
            "score",
            "how",
        )


def check_request(k: int, exclude: str) -> None:
    """Refuse what no model can answer."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise SettingsError(f"k must be a whole number of at least 1, got {k!r}")
    if exclude not in EXCLUDE:
        raise SettingsError(f"exclude must be one of {', '.join(EXCLUDE)}, got '{exclude}'")


def _rows(lists: Lists) -> pl.DataFrame:
    items, scores = lists.items.cpu().numpy(), lists.scores.cpu().numpy()
    users, ranks = np.nonzero(items >= 0)
    return pl.DataFrame(
        {
            "place": lists.places[users],
            "rank": ranks + 1,
            "item": items[users, ranks],
            "score": scores[users, ranks],
            "how": pl.repeat(lists.how, len(users), eager=True),
        },
        schema=_NO_ROWS.schema,
    )


_NO_ROWS = pl.DataFrame(
    schema={"place": pl.Int64, "rank": pl.Int32, "item": pl.Int64, "score": pl.Float32, "how": pl.String}
)


def _numbers(ids: Ids) -> dict[Any, int]:
    return {value: number for number, value in enumerate(ids.tolist())}


def _as_stored(value: Any, ids: Ids) -> Any:
    """An id as the data hold it; "7" and 7 are the same, "007" is neither.

    >>> _as_stored("7", np.array([7])), _as_stored("007", np.array([7])), _as_stored(7, np.array(["7"], dtype=object))
    (7, '007', '7')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise SettingsError(f"an id must be text or a whole number, got {value!r}")
    if ids.dtype == object:
        return str(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,19}", value) else value


def _user_column(users: list[Any], ids: Ids) -> pl.Series:
    """Users in the type of the data's ids, or all as text where one does not fit."""
    try:
        return pl.Series(users, dtype=id_column(ids[:0]).dtype)
    except TypeError:
        return pl.Series([str(user) for user in users], dtype=pl.String)
