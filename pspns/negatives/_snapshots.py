"""The model's vectors at the ends of the last few epochs, each replica at its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pspns.candidate_scores import candidate_scores
from pspns.shapes import ModelView, SharedWorld, State


class Snapshots:
    """The newest `n` of them; one that comes later takes the place of the oldest."""

    def __init__(self, world: SharedWorld, n_replicas: int, n: int):
        self._users, self._items = (
            torch.zeros(n, n_nodes, n_replicas, world.embedding_size, device=world.device)
            for n_nodes in (world.n_users, world.n_items)
        )
        self.n_taken = torch.zeros(n_replicas, dtype=torch.int64, device=world.device)
        """[replicas] how many there have been so far."""

    def take(self, replicas: Sequence[int], model: ModelView) -> None:
        n = len(self._users)
        for replica in replicas:
            place = int(self.n_taken[replica]) % n
            self._users[place, :, replica] = model.final.users[:, replica]
            self._items[place, :, replica] = model.final.items[:, replica]
            self.n_taken[replica] += 1

    def is_there(self) -> Tensor:
        """`[replicas, n]`."""
        return torch.arange(len(self._users), device=self.n_taken.device) < self.n_taken[:, None]

    def score(self, users: Tensor, items: Tensor) -> Tensor:
        """`[replicas, rows]` users by `[replicas, rows, m]` items: `[replicas, rows, m, n]`."""
        tables = zip(self._users, self._items, strict=True)
        return torch.stack([candidate_scores(*both, users, items) for both in tables], -1)

    def keep(self, replicas: Tensor) -> None:
        self._users, self._items = self._users[:, :, replicas], self._items[:, :, replicas]
        self.n_taken = self.n_taken[replicas]

    def state(self) -> State:
        return {"users": self._users.clone(), "items": self._items.clone(), "n_taken": self.n_taken.clone()}

    def load_state(self, state: State) -> None:
        self._users, self._items, self.n_taken = (state[name].clone() for name in ("users", "items", "n_taken"))
