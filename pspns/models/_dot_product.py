"""Scores as dot products of user and item vectors."""

from __future__ import annotations

from torch import Tensor


class DotProduct:
    """Vectors of every replica; someone unknown gets the sum of their items' vectors."""

    def __init__(self, users: Tensor, items: Tensor, fold: Tensor | None = None):
        self.users = users  # [n_users, replicas, size]
        self.items = items  # [n_items, replicas, size]
        # [n_items, replicas, size] what an item adds to a new user's vector: its own vector unless a model has better.
        # Such users are ranked about as well as trained ones (docs/decisions/0010).
        self.fold = items if fold is None else fold

    @property
    def n_replicas(self) -> int:
        return self.users.shape[1]

    def part(self, first: int, n: int) -> DotProduct:
        """The n replicas from `first` on."""
        users, items, fold = (table[:, first : first + n].contiguous() for table in (self.users, self.items, self.fold))
        return DotProduct(users, items, None if self.fold is self.items else fold)

    def scores(self, users: Tensor, replica: int) -> Tensor:
        return self.users[users, replica] @ self.items[:, replica].T

    def pair_scores(self, users: Tensor, items: Tensor, replica: int) -> Tensor:
        """`[rows]` users and `[rows, n]` items → `[rows, n]`."""
        return (self.users[users, replica][:, None] * self.items[items, replica]).sum(-1)

    def fold_in(self, items: Tensor, replica: int) -> Tensor:
        return self.items[:, replica] @ self.fold[items, replica].sum(0)

    def tensors(self) -> dict[str, Tensor]:
        named = {"users": self.users, "items": self.items}
        return named if self.fold is self.items else {**named, "fold": self.fold}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DotProduct:
        return cls(tensors["users"], tensors["items"], tensors.get("fold"))
