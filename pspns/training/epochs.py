"""What an epoch is: each pair once for each copy, in random order, every replica in an order of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pspns.rng import ReplicaStream
from pspns.shapes import PositiveBatch, World


class Epochs:
    """Batches without end; all have the same number of rows, the last of an epoch being filled with dead ones."""

    def __init__(self, world: World, batch_size: int, seeds: Sequence[int]):
        pairs, device = world.pairs, world.device
        self._users = torch.from_numpy(pairs.users).to(device)
        self._items = torch.from_numpy(pairs.items).to(device)
        weights = pairs.pair_weights * world.user_weights[pairs.users]
        self._weights = torch.from_numpy(weights).to(device)
        # Visit v belongs to the first pair whose running total of copies exceeds v: no pair is written twice.
        self._visits_up_to = torch.from_numpy(np.cumsum(pairs.copies, dtype=np.int64)).to(device)
        self._n_visits = pairs.n_visits
        self._rows = min(batch_size, self._n_visits)
        self._stream = ReplicaStream(seeds, "shuffle", device)
        self._order = torch.empty(len(seeds), 0, dtype=torch.int64, device=device)
        self._position = self._n_visits
        self.epoch = 0
        """Epochs begun so far."""

    @property
    def n_replicas(self) -> int:
        return len(self._order)

    def next_batch(self) -> PositiveBatch:
        if self._position >= self._n_visits:
            self._order = self._stream.order(self._n_visits)
            self._position = 0
            self.epoch += 1
        visits = self._order[:, self._position : self._position + self._rows]
        self._position += self._rows
        n_live = visits.shape[1]
        if n_live < self._rows:
            visits = torch.nn.functional.pad(visits, (0, self._rows - n_live))
        live = torch.ones(visits.shape, device=visits.device)
        live[:, n_live:] = 0
        pair_ids = visits
        if self._n_visits > len(self._users):  # without copies, a visit's number is its pair's
            pair_ids = torch.searchsorted(self._visits_up_to, visits.contiguous(), right=True)
        return PositiveBatch(
            users=self._users[pair_ids],
            items=self._items[pair_ids],
            pair_ids=pair_ids,
            weights=self._weights[pair_ids],
            live=live,
        )

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self._order = self._order[replicas]
        self._stream.keep(replicas)
