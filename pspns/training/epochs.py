"""What an epoch is: each pair once for each copy, in random order, every replica in an order of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pspns import gpu_kernels
from pspns.rng import ReplicaStream
from pspns.shapes import PositiveBatch, World

# Batches are laid out for so many steps at once: a copy for each replica, not a dozen small ones for each step.
STEPS_AHEAD = 32
# Rows are filled up to a multiple of what a processor takes at once, on each of two threads. It computes leftovers in
# another way, with other last bits, and which rows of which replica are left over depends on the company.
ROWS_AT_ONCE = 64
# Of a batch: users, items, places of pairs, weights, live.
COLUMN_TYPES = torch.int64, torch.int64, torch.int64, torch.float32, torch.float32


class Epochs:
    """Batches without end, all of the same number of rows; the last of an epoch is filled with dead ones.

    Replicas may have different pairs, and then have epochs of different lengths. Where a replica stands follows from
    the number of steps taken, so that number is all that a resume needs.
    """

    def __init__(
        self, worlds: Sequence[World], batch_size: int, seeds: Sequence[int], *, copies_together: bool = False
    ):
        """One world and one seed for each replica; replicas with the same pairs give the same world.

        With `copies_together` pairs are shuffled, not visits: a pair's copies are rows of one batch, but for the last
        pair of a batch, whose copies may go on in the next.
        """
        device = worlds[0].device
        distinct = list({id(world): world for world in worlds}.values())
        pairs = [world.pairs for world in distinct]
        weights = [world.pairs.pair_weights * world.user_weights[world.pairs.users] for world in distinct]
        # All worlds' pairs one after the other.
        self._users, self._items, self._weights = (
            torch.from_numpy(np.concatenate(parts)).to(device)
            for parts in ([p.users for p in pairs], [p.items for p in pairs], weights)
        )
        # Visit v belongs to the first pair whose running total of copies exceeds v: no pair is written twice.
        copies = np.concatenate([p.copies for p in pairs])
        self._visits_up_to = torch.from_numpy(np.cumsum(copies, dtype=np.int64)).to(device)
        self._has_copies = bool((copies > 1).any())
        n_visits = [p.n_visits for p in pairs]
        places = {id(world): place for place, world in enumerate(distinct)}
        own = [places[id(world)] for world in worlds]
        visits_before, pairs_before = (np.cumsum([0, *sizes]) for sizes in (n_visits, map(len, pairs)))
        self._first_visits = torch.tensor(visits_before[own], device=device)[:, None]  # [replicas, 1]
        self._pairs_before = torch.tensor(pairs_before[own], device=device)[:, None]  # [replicas, 1]
        self._n_visits = [n_visits[place] for place in own]
        self._n_pairs = [len(pairs[place]) for place in own]
        self._copies_together = copies_together
        self._streams = [ReplicaStream([seed], "shuffle", device) for seed in seeds]
        self._batch_size = batch_size
        self._rows = -(-batch_size // ROWS_AT_ONCE) * ROWS_AT_ONCE
        self._orders: list[tuple[int, Tensor]] = [(-1, torch.empty(0)) for _ in seeds]  # (epoch, its batches)
        self._ahead = torch.empty(STEPS_AHEAD, len(seeds), self._rows, dtype=torch.int64, device=device)
        self._visits = torch.empty(len(seeds), self._rows, dtype=torch.int64, device=device)
        self._epochs_ended = torch.zeros(len(seeds), dtype=torch.int64, device=device)
        self._first_ahead: int | None = None  # the step whose batch lies first in `_ahead`
        self.step = 0
        """Batches handed out so far."""

    @property
    def n_replicas(self) -> int:
        return len(self._streams)

    @property
    def epochs(self) -> list[int]:
        """Epochs begun so far, for each replica."""
        return [-(-self.step // self._n_batches(place)) for place in range(self.n_replicas)]

    def next_batch(self) -> PositiveBatch:
        self.advance()
        return self.batch()

    def advance(self) -> list[int]:
        """Go to the next batch: what needs the host is here, the rest in `batch`. Whose epoch ended before it?"""
        is_sought = self._first_ahead is None
        if is_sought or self.step >= (self._first_ahead or 0) + STEPS_AHEAD:
            self._lay_out()
        self._visits.copy_(self._ahead[self.step - (self._first_ahead or 0)])
        ended = [place for place in range(self.n_replicas) if self.step and self.step % self._n_batches(place) == 0]
        if ended or is_sought:
            epochs = [self.step // self._n_batches(place) for place in range(self.n_replicas)]
            self._epochs_ended.copy_(torch.tensor(epochs))
        self.step += 1
        return ended

    def batch(self) -> PositiveBatch:
        """The present batch; work for the device alone."""
        if not self._visits.is_cuda:
            return self._batch_on_cpu()
        return self._batch_on_gpu() if gpu_kernels.are_there() else self._batch_by_torch()

    def _batch_by_torch(self) -> PositiveBatch:
        # A dead row is filled with the replica's first visit.
        visits = torch.where(self._visits < 0, self._first_visits, self._visits)
        pair_ids = visits
        if self._has_copies:  # without copies, a visit's number is its pair's
            pair_ids = torch.searchsorted(self._visits_up_to, visits, right=True)
        return PositiveBatch(
            users=self._users[pair_ids],
            items=self._items[pair_ids],
            pair_ids=pair_ids - self._pairs_before,
            weights=self._weights[pair_ids],
            live=(self._visits >= 0).float(),
            epochs=self._epochs_ended,
        )

    def _batch_on_cpu(self) -> PositiveBatch:
        from pspns.kernels.batches import look_up  # waits for numba, which a GPU does not need

        found = [torch.empty_like(self._visits, dtype=dtype) for dtype in COLUMN_TYPES]
        visits_up_to = self._visits_up_to if self._has_copies else self._visits_up_to[:0]
        given = (
            self._visits, self._first_visits, self._pairs_before, self._users, self._items, self._weights, visits_up_to,
        )  # fmt: skip
        look_up(*(tensor.numpy() for tensor in (*given, *found)))
        users, items, pair_ids, weights, live = found
        return PositiveBatch(users, items, pair_ids, weights, live, self._epochs_ended)

    def _batch_on_gpu(self) -> PositiveBatch:
        from pspns.gpu_kernels.batches import look_up

        users, items, pair_ids, weights, live = look_up(
            self._visits, self._first_visits, self._pairs_before, self._users, self._items, self._weights,
            self._visits_up_to if self._has_copies else None,
        )  # fmt: skip
        return PositiveBatch(users, items, pair_ids, weights, live, self._epochs_ended)

    def seek(self, step: int) -> None:
        """Go on as if this many batches had been handed out."""
        self.step, self._first_ahead = step, None

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        going_on = replicas.tolist()
        self._n_visits, self._n_pairs, self._streams, self._orders = (
            [values[place] for place in going_on]
            for values in (self._n_visits, self._n_pairs, self._streams, self._orders)
        )
        self._first_visits, self._pairs_before = self._first_visits[replicas], self._pairs_before[replicas]
        self._ahead = self._ahead[:, replicas].contiguous()
        self._visits = self._visits[replicas]
        self._epochs_ended = self._epochs_ended[replicas]

    def _n_batches(self, place: int) -> int:
        return -(-self._n_visits[place] // self._batch_size)

    def _lay_out(self) -> None:
        """Fill `_ahead` with the batches of the coming steps."""
        for place in range(self.n_replicas):
            n_laid = 0
            while n_laid < STEPS_AHEAD:
                epoch, batch = divmod(self.step + n_laid, self._n_batches(place))
                rest = self._batches(place, epoch)[batch : batch + STEPS_AHEAD - n_laid]
                self._ahead[n_laid : n_laid + len(rest), place] = rest
                n_laid += len(rest)
        self._first_ahead = self.step

    def _batches(self, place: int, epoch: int) -> Tensor:
        """`[batches, rows]` visits of one epoch; −1 for a dead row."""
        if self._orders[place][0] != epoch:
            n_visits = self._n_visits[place]
            self._streams[place].calls = epoch
            order = self._order_of_pairs(place) if self._copies_together else self._order_of_visits(place)
            n_batches, n_whole = self._n_batches(place), n_visits // self._batch_size
            batches = order.new_full((n_batches, self._rows), -1)
            batches[:n_whole, : self._batch_size] = order[: n_whole * self._batch_size].view(n_whole, self._batch_size)
            batches[n_whole:, : n_visits % self._batch_size] = order[n_whole * self._batch_size :]
            self._orders[place] = epoch, batches
        return self._orders[place][1]

    def _order_of_visits(self, place: int) -> Tensor:
        return self._streams[place].order(self._n_visits[place])[0].add_(self._first_visits[place])

    def _order_of_pairs(self, place: int) -> Tensor:
        """Visits in the order of their pairs, those of a pair one after the other."""
        pair_ids = self._streams[place].order(self._n_pairs[place])[0].add_(self._pairs_before[place])
        ends = self._visits_up_to[pair_ids]
        copies = ends - torch.where(pair_ids > 0, self._visits_up_to[pair_ids - 1], 0)
        # So many visits of the epoch come up to a pair's last one, and they end where its own numbers do.
        shifts = (ends - copies.cumsum(0)).repeat_interleave(copies)
        return shifts + torch.arange(self._n_visits[place], device=shifts.device)
