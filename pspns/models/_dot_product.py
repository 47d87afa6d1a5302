"""Scores as dot products of user and item vectors."""

from __future__ import annotations

import torch
from torch import Tensor


class DotProduct:
    """Vectors of every replica; someone unknown gets a vector from the items they have."""

    # Chosen on MovieLens-1M and Epinions: see docs/decisions, "Folding in".
    UNSEEN_WEIGHT = 0.05
    RIDGE = 0.1

    def __init__(self, users: Tensor, items: Tensor, fold: Tensor | None = None):
        self.users = users  # [n_users, replicas, size]
        self.items = items  # [n_items, replicas, size]
        self.fold = fold  # [n_items, replicas, size]: a new user's vector is the sum of these rows, if given

    @property
    def n_replicas(self) -> int:
        return self.users.shape[1]

    def scores(self, users: Tensor, replica: int) -> Tensor:
        return self.users[users, replica] @ self.items[:, replica].T

    def fold_in(self, items: Tensor, replica: int) -> Tensor:
        vectors = self.items[:, replica]  # [n_items, size]
        if self.fold is not None:
            return vectors @ self.fold[items, replica].sum(0)
        return vectors @ self._least_squares(vectors, items)

    def _least_squares(self, vectors: Tensor, items: Tensor) -> Tensor:
        """The vector whose scores are nearest 1 on the given items and 0, at a small weight, on all others."""
        owned = vectors[items].double()
        everything = vectors.double().T @ vectors.double()
        weight = self.UNSEEN_WEIGHT * len(items) / len(vectors)
        scale = everything.diagonal().mean() / len(vectors)
        ridge = self.RIDGE * len(items) * scale * torch.eye(vectors.shape[1], device=vectors.device).double()
        solution: Tensor = torch.linalg.solve(owned.T @ owned + weight * everything + ridge, owned.sum(0))
        return solution.to(vectors.dtype)

    def tensors(self) -> dict[str, Tensor]:
        named = {"users": self.users, "items": self.items}
        return named if self.fold is None else {**named, "fold": self.fold}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DotProduct:
        return cls(tensors["users"], tensors["items"], tensors.get("fold"))
