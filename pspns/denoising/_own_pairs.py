"""The pairs that each replica is trained on, user by user."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pspns.shapes import DenoisedWorld, PositiveBatch, World


def own_pairs_bytes(world: World) -> int:
    """What `OwnPairs` holds, whatever the number of replicas."""
    has_copies = bool((world.pairs.copies != 1).any())
    return (20 + 8 * has_copies) * len(world.pairs) + 3 * 8 * world.n_users


class OwnPairs:
    """Looked up by users `[replicas, rows, …]` and places among their pairs, each replica among its own."""

    def __init__(self, world: DenoisedWorld):
        distinct = list({id(one): one for one in world.worlds}.values())
        places = {id(one): place for place, one in enumerate(distinct)}
        own = [places[id(one)] for one in world.worlds]
        # All worlds' pairs, users, and users with pairs, one world after the other.
        sizes = [np.bincount(one.pairs.users, minlength=world.n_users) for one in distinct]
        self._users, self._items, self._weights, self._sizes, self._first, self._active = (
            torch.from_numpy(np.concatenate(parts)).to(world.device)
            for parts in (
                [one.pairs.users for one in distinct],
                [one.pairs.items for one in distinct],
                [one.pairs.pair_weights * one.user_weights[one.pairs.users] for one in distinct],
                sizes,
                [np.cumsum(of_one) - of_one for of_one in sizes],
                [np.flatnonzero(of_one) for of_one in sizes],
            )
        )
        copies = np.concatenate([one.pairs.copies for one in distinct])
        # [pairs + 1] all copies of the pairs before; unset: each pair has one, and a visit's number is its pair's.
        self._visits_before: Tensor | None = None
        if (copies != 1).any():
            self._visits_before = torch.from_numpy(np.append(0, np.cumsum(copies, dtype=np.int64))).to(world.device)
        n_pairs, n_active = [len(one.pairs) for one in distinct], [int((of_one > 0).sum()) for of_one in sizes]
        pairs_before, active_before = (np.cumsum([0, *counts]) for counts in (n_pairs, n_active))
        self._pairs_before, self._users_before, self._active_before, self._n_active, self._n_pairs = (
            torch.tensor([int(values[place]) for place in own], device=world.device)
            for values in (
                pairs_before,
                [world.n_users * place for place in range(len(distinct))],
                active_before,
                n_active,
                n_pairs,
            )
        )  # [replicas] each

    @property
    def n_active(self) -> Tensor:
        """`[replicas]` users with pairs."""
        return self._n_active

    @property
    def n_pairs(self) -> Tensor:
        """`[replicas]`."""
        return self._n_pairs

    def active_users(self, places: Tensor) -> Tensor:
        """Those at `[replicas, rows]` places among the users with pairs."""
        return self._active[places + self._of(self._active_before, places)]

    def sizes(self, users: Tensor) -> Tensor:
        """How many pairs they have."""
        return self._sizes[users + self._of(self._users_before, users)]

    def first_ids(self, users: Tensor) -> Tensor:
        """The number of each user's first pair; the others follow."""
        return self._first[users + self._of(self._users_before, users)]

    def n_visits(self, users: Tensor) -> Tensor:
        """How many rows of an epoch are theirs: a pair has as many as it has copies."""
        if self._visits_before is None:
            return self.sizes(users)
        first = self._first_places(users)
        return self._visits_before[first + self.sizes(users)] - self._visits_before[first]

    def visited(self, users: Tensor, visits: Tensor) -> Tensor:
        """The pair at these places among all visits of its user; its copies lie side by side."""
        if self._visits_before is None:
            return self.first_ids(users) + visits
        counted = self._visits_before[self._first_places(users)] + visits
        places = torch.searchsorted(self._visits_before, counted, right=True) - 1
        return places - self._of(self._pairs_before, places)

    def first_visits(self, users: Tensor, pair_ids: Tensor) -> Tensor:
        """Of these pairs' copies the first, as a place among all visits of its user."""
        if self._visits_before is None:
            return pair_ids - self.first_ids(users)
        places = pair_ids + self._of(self._pairs_before, pair_ids)
        return self._visits_before[places] - self._visits_before[self._first_places(users)]

    def users(self, pair_ids: Tensor) -> Tensor:
        return self._users[pair_ids + self._of(self._pairs_before, pair_ids)]

    def items(self, pair_ids: Tensor) -> Tensor:
        return self._items[pair_ids + self._of(self._pairs_before, pair_ids)]

    def rows(self, users: Tensor, pair_ids: Tensor, like: PositiveBatch) -> PositiveBatch:
        """A batch of these pairs, `[replicas, rows]`, otherwise like another."""
        weights = self._weights[pair_ids + self._of(self._pairs_before, pair_ids)]
        return PositiveBatch(users, self.items(pair_ids), pair_ids, weights, like.live, like.epochs)

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self._pairs_before, self._users_before, self._active_before, self._n_active, self._n_pairs = (
            values[replicas]
            for values in (
                self._pairs_before, self._users_before, self._active_before, self._n_active, self._n_pairs,
            )
        )  # fmt: skip

    def _first_places(self, users: Tensor) -> Tensor:
        """Of each user's first pair, among the pairs of all worlds."""
        return self.first_ids(users) + self._of(self._pairs_before, users)

    @staticmethod
    def _of(of_replicas: Tensor, places: Tensor) -> Tensor:
        return of_replicas.view(-1, *[1] * (places.dim() - 1))
