"""A split: train, validation and test pairs, numbered so that held-out data cannot touch what is built."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pspns.data.interactions import Ids, Interactions, Ints
from pspns.errors import DataError
from pspns.sorted_keys import are_in


class Part(IntEnum):
    """Where a pair goes."""

    TRAIN = 0
    VALID = 1
    TEST = 2


@dataclass(frozen=True)
class Pairs:
    """Distinct user–item pairs by number, sorted by user, then item."""

    users: Ints  # [pairs]
    items: Ints  # [pairs]

    @classmethod
    def sorted_from(cls, users: Ints, items: Ints) -> Pairs:
        order = np.lexsort((items, users))
        return cls(users[order], items[order])

    @classmethod
    def none(cls) -> Pairs:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.users)

    def only(self, kept: NDArray[np.bool_]) -> Pairs:
        """Those for which `kept` is true."""
        return Pairs(self.users[kept], self.items[kept])

    def matrix(self, n_users: int, n_items: int) -> sparse.csr_array:
        """The 0/1 users × items matrix, float32; the pairs must be sorted, each there once."""
        ones = np.ones(len(self), dtype=np.float32)
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.users, minlength=n_users))))
        return sparse.csr_array((ones, self.items, starts), shape=(n_users, n_items))


@dataclass(frozen=True)
class GivenSplit:
    """Interactions whose parts their publisher has fixed (a folder of train, valid and test files)."""

    interactions: Interactions
    parts: NDArray[np.int8]  # [pairs] see Part; without VALID where there is no such file
    source: str  # where it came from, in words


@dataclass(frozen=True)
class Split:
    """Users and items known to train carry the lowest numbers, sorted by id; held-out-only ones follow.

    So `n_users`, `n_items` and every number below them depend on train alone.
    """

    train: Pairs  # noise included: all that is learned from
    valid: Pairs
    test: Pairs
    n_users: int  # users with a train pair: numbers 0 … n_users − 1
    n_items: int  # items with a train pair
    user_ids: Ids  # [n_users + held-out-only users]
    item_ids: Ids  # [n_items + held-out-only items]
    made_by: str  # how the parts came about, in words
    facts: tuple[str, ...] = ()
    noise: Pairs = field(default_factory=Pairs.none)  # those of train that were made up, see pspns.data.noise
    n_noise_missing: int = 0  # false pairs that were asked for and found no room

    @classmethod
    def from_parts(cls, interactions: Interactions, parts: NDArray[np.int8], made_by: str) -> Split:
        """Number the pairs anew, given for each which part it belongs to."""
        in_train = parts == Part.TRAIN
        if not in_train.any():
            raise DataError(f"no pair is left for train ({made_by}); expected at least one")
        users, user_ids, n_users = _number_train_first(interactions.users, interactions.user_ids, in_train)
        items, item_ids, n_items = _number_train_first(interactions.items, interactions.item_ids, in_train)
        train, valid, test = (Pairs.sorted_from(users[parts == part], items[parts == part]) for part in Part)
        return cls(train, valid, test, n_users, n_items, user_ids, item_ids, made_by, interactions.facts)

    @cached_property
    def clean_train(self) -> Pairs:
        """What users really have: train without the noise. The same object where there is none."""
        return self.train.only(~self.are_noise(self.train)) if len(self.noise) else self.train

    def are_noise(self, pairs: Pairs) -> NDArray[np.bool_]:
        """Which of some pairs, in whatever part, were added to train as noise."""
        width = len(self.item_ids)
        return are_in(pairs.users * width + pairs.items, self.noise.users * width + self.noise.items)

    def fingerprint(self) -> str:
        """A sha256 of every id and every pair in every part: equal only for equal data, equally split and noised."""
        digest = hashlib.sha256()
        for ids in (self.user_ids, self.item_ids):
            digest.update(repr(ids.tolist()).encode())
        for pairs in (self.train, self.valid, self.test, *([self.noise] if len(self.noise) else [])):
            digest.update(np.int64(len(pairs)).tobytes())
            digest.update(pairs.users.astype("<i8").tobytes())
            digest.update(pairs.items.astype("<i8").tobytes())
        return digest.hexdigest()


def _number_train_first(places: Ints, ids: Ids, in_train: NDArray[np.bool_]) -> tuple[Ints, Ids, int]:
    trained = np.zeros(len(ids), dtype=bool)
    trained[places[in_train]] = True
    # `ids` are in the order of `order_ids` already, so both halves stay sorted.
    old_in_new_order = np.concatenate((np.flatnonzero(trained), np.flatnonzero(~trained)))
    new_number = np.empty(len(ids), dtype=np.int64)
    new_number[old_in_new_order] = np.arange(len(ids))
    return new_number[places], ids[old_in_new_order], int(trained.sum())
