"""A set of items for each user: rejected negatives, evaluation masks, held-out items."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pspns import gpu_kernels
from pspns.errors import DataError
from pspns.sorted_keys import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pspns.data.split import Pairs
    from pspns.rng import ReplicaStream


class ItemSets:
    """Compressed rows on one device; nothing of size users × items is ever made."""

    def __init__(self, n_users: int, n_items: int, *parts: Pairs, device: torch.device | str = "cpu"):
        """The union of `parts`; pairs of users or items beyond the given numbers are left out."""
        users = np.concatenate([part.users for part in parts] or [np.empty(0, np.int64)])
        items = np.concatenate([part.items for part in parts] or [np.empty(0, np.int64)])
        inside = (users < n_users) & (items < n_items)
        keys = distinct(users[inside] * n_items + items[inside])
        owners = keys // n_items
        sizes = np.bincount(owners, minlength=n_users)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        self.n_users = n_users
        self.n_items = n_items
        self.keys = torch.from_numpy(keys).to(device)  # [entries] user · n_items + item, sorted
        self.starts = torch.from_numpy(starts).to(device)  # [n_users + 1]
        self.items = torch.from_numpy(keys % n_items).to(device)  # [entries] user after user, ascending
        self.sizes = torch.from_numpy(sizes).to(device)  # [n_users]
        # Item minus its rank in the row = how many items below it are outside the set: rising within a row.
        outside_below = keys % n_items - (np.arange(len(keys)) - starts[owners])
        self.outside_below = torch.from_numpy(outside_below.astype(np.int32)).to(device)  # [entries]

    @classmethod
    def stacked(cls, sets: Sequence[ItemSets]) -> ItemSets:
        """One after the other: user u of the w-th becomes user w · n_users + u."""
        n_users, n_items, device = sets[0].n_users, sets[0].n_items, sets[0].keys.device
        stack = cls(n_users * len(sets), n_items, device=device)
        n_before = np.cumsum([0, *(len(one.keys) for one in sets)])
        stack.keys = torch.cat([one.keys + w * n_users * n_items for w, one in enumerate(sets)])
        stack.starts = torch.cat([one.starts[w > 0 :] + int(n_before[w]) for w, one in enumerate(sets)])
        stack.items = torch.cat([one.items for one in sets])
        stack.sizes = torch.cat([one.sizes for one in sets])
        stack.outside_below = torch.cat([one.outside_below for one in sets])
        return stack

    def contains(self, users: Tensor, items: Tensor) -> Tensor:
        """Is the item in the user's set? Any shape, the two broadcast."""
        wanted = users * self.n_items + items
        if len(self.keys) == 0:
            return torch.zeros_like(wanted, dtype=torch.bool)
        places = torch.searchsorted(self.keys, wanted.contiguous()).clamp_max(len(self.keys) - 1)
        return self.keys[places] == wanted

    def entries(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """Every item of these users' sets, as (row in `users`, item), both `[entries]`."""
        sizes = self.sizes[users]
        rows = torch.repeat_interleave(torch.arange(len(users), device=users.device), sizes)
        # A row's entries lie together: the distance from a place in `rows` to its entry is the same within a row.
        distance = self.starts[users] - (sizes.cumsum(0) - sizes)
        return rows, self.items[torch.arange(len(rows), device=users.device) + distance[rows]]

    def draw_outside(self, users: Tensor, n: int, stream: ReplicaStream) -> Tensor:
        """`n` items for each row, independent and uniform over what is outside the user's set.

        Users are `[replicas, rows]`, the result `[replicas, rows, n]`. No draw is ever rejected: of the f items
        outside, the r-th is found by a search among the gaps of the row, which costs the same for a user who
        owns one item and for a user who owns all but one.
        """
        if users.is_cuda:
            draw = self._draw_on_gpu if gpu_kernels.are_there() else self._draw_by_torch
            return draw(users, n, stream)
        from pspns.kernels.draws import draw_outside  # waits for numba, which a GPU does not need

        items = torch.empty(*users.shape, n, dtype=torch.int64)
        keys, calls = stream.keys_and_calls
        draw_outside(
            keys.numpy(), int(calls), users.numpy(), self.starts.numpy(), self.outside_below.numpy(), self.n_items,
            items.numpy(),
        )  # fmt: skip
        stream.count_call()
        return items

    def _draw_on_gpu(self, users: Tensor, n: int, stream: ReplicaStream) -> Tensor:
        from pspns.gpu_kernels.draws import draw_outside

        keys, calls = stream.keys_and_calls
        items = draw_outside(keys, calls, users, self.starts, self.outside_below, self.n_items, n)
        stream.count_call()
        return items

    def _draw_by_torch(self, users: Tensor, n: int, stream: ReplicaStream) -> Tensor:
        free = self.n_items - self.sizes[users]  # [replicas, rows]
        return self.nth_outside(users[..., None], stream.integers(free, n))

    def nth_outside(self, users: Tensor, n: Tensor) -> Tensor:
        """Of the items outside the user's set the n-th, counted from 0; any shapes that broadcast."""
        wanted = users * (self.n_items + 1) + n
        return n + torch.searchsorted(self._gap_keys, wanted.contiguous(), right=True) - self.starts[users]

    @cached_property
    def _gap_keys(self) -> Tensor:
        """The gaps of all rows as one rising sequence, for one search in all."""
        owners = torch.repeat_interleave(torch.arange(self.n_users, device=self.sizes.device), self.sizes)
        return owners * (self.n_items + 1) + self.outside_below

    def check_room(self, what: str) -> None:
        """Every user must leave at least one item outside."""
        full = torch.nonzero(self.sizes >= self.n_items)
        if len(full):
            raise DataError(
                f"{len(full):,} of {self.n_users:,} users own all {self.n_items:,} items (the first is user number "
                f"{int(full[0])}), so no {what} can be drawn for them; leave such users out"
            )


class RejectedItems:
    """What may not be a negative, for replicas of which each may have sets of its own."""

    def __init__(self, sets: Sequence[ItemSets]):
        """One entry for each replica; replicas that share their sets give the same object."""
        distinct = list({id(one): one for one in sets}.values())
        places = {id(one): place for place, one in enumerate(distinct)}
        self.sets = ItemSets.stacked(distinct) if len(distinct) > 1 else distinct[0]
        """Of all replicas; see `rows`."""
        self._distinct = distinct
        rows_before = [places[id(one)] * one.n_users for one in sets]
        self._rows_before = torch.tensor(rows_before, device=self.sets.keys.device)[:, None]  # [replicas, 1]

    def rows(self, users: Tensor) -> Tensor:
        """Which of `sets` are those of these users, `[replicas, rows, …]`."""
        return users + self._rows_before.view(-1, *[1] * (users.dim() - 1))

    def draw_outside(self, users: Tensor, n: int, stream: ReplicaStream) -> Tensor:
        """See `ItemSets.draw_outside`; each replica outside its own sets."""
        return self.sets.draw_outside(self.rows(users), n, stream)

    def contains(self, users: Tensor, items: Tensor) -> Tensor:
        """Is the item in the user's set? `[replicas, rows, …]` of the same shape, each replica in its own sets."""
        return self.sets.contains(self.rows(users), items)

    def check_room(self, what: str) -> None:
        """Every user must leave at least one item outside."""
        for one in self._distinct:
            one.check_room(what)

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self._rows_before = self._rows_before[replicas]
