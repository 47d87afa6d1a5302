"""EASE: a linear item-to-item model with a closed form (Steck 2019); strong, and quadratic in the items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.item_sets import ItemSets
from pspns.models._choosing import best_on_validation
from pspns.shapes import Fitted, World

if TYPE_CHECKING:
    from pspns.training.trainer import Trainer

CANDIDATE_L2 = (100.0, 200.0, 500.0, 1000.0)


class ItemToItem:
    """Scores x·B: the sum of the rows of B that belong to the user's items."""

    n_replicas = 1

    def __init__(self, weights: Tensor, owned: ItemSets):
        self.weights = weights  # [n_items, n_items]
        self.owned = owned  # what each user has in train

    def scores(self, users: Tensor, replica: int) -> Tensor:
        _, items = self.owned.entries(users)
        sizes = self.owned.sizes[users]
        # Not a dense 0/1 matrix times B: that product's bits depend on the number of threads.
        return F.embedding_bag(items, self.weights, sizes.cumsum(0) - sizes, mode="sum")

    def fold_in(self, items: Tensor, replica: int) -> Tensor:
        return self.weights[items].sum(0)

    def tensors(self) -> dict[str, Tensor]:
        n_users, n_items = self.owned.n_users, self.owned.n_items
        return {"weights": self.weights, "owned": self.owned.keys, "shape": torch.tensor([n_users, n_items])}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> ItemToItem:
        n_users, n_items = tensors["shape"].tolist()
        keys = tensors["owned"].cpu().numpy()
        owned = ItemSets(n_users, n_items, Pairs(keys // n_items, keys % n_items), device=tensors["owned"].device)
        return cls(tensors["weights"], owned)


@dataclass(frozen=True, kw_only=True)
class Ease:
    l2: float | None = None
    """Weight of the squared item-to-item weights; unset: the best of 100, 200, 500, 1000 on validation."""

    def __post_init__(self) -> None:
        if self.l2 is not None and not 0 < self.l2 < math.inf:
            raise SettingsError(f"l2 must be above 0, got {self.l2:g}; raise [model] l2")

    def fit(self, world: World, trainer: Trainer) -> Fitted:
        # Seven P × P tables of floats at most: the Gram matrix, its regularised copy, the factor, the inverse as LAPACK
        # leaves it and row by row, the candidate before this one and the best so far.
        world.memory.check(7 * 4 * world.n_items**2, f"ease with {world.n_items:,} items")
        matrix = world.train.matrix(world.n_users, world.n_items)
        gram = torch.from_numpy((matrix.T @ matrix).toarray()).to(world.device)
        owned = ItemSets(world.n_users, world.n_items, world.train, device=world.device)

        def scorers() -> Iterator[tuple[float, ItemToItem]]:
            for l2 in (self.l2,) if self.l2 else CANDIDATE_L2:
                yield l2, ItemToItem(closed_form(gram, l2), owned)

        if self.l2:
            return Fitted(scorer=next(scorers())[1])
        return best_on_validation("l2", scorers(), trainer)

    scorer = ItemToItem


def closed_form(gram: Tensor, l2: float) -> Tensor:
    """B = I − P / diag(P) with P = (XᵀX + λI)⁻¹: least squares with a zero diagonal."""
    regularised = gram.clone()
    regularised.diagonal().add_(l2)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(regularised))
    inverse /= -inverse.diagonal().clone()
    inverse.fill_diagonal_(0)
    return inverse.contiguous()  # LAPACK's is column by column, and scoring reads rows


COMPONENT = Ease
