"""Popularity: everyone is offered what most people chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pspns.shapes import Fitted, World

if TYPE_CHECKING:
    from pspns.training.trainer import Trainer


class Counts:
    """The same scores for everybody: how many users each item has."""

    n_replicas = 1

    def __init__(self, counts: Tensor):
        self.counts = counts  # [n_items]

    def scores(self, users: Tensor, replica: int) -> Tensor:
        return self.counts.expand(len(users), -1)

    def fold_in(self, items: Tensor, replica: int) -> Tensor:
        return self.counts

    def tensors(self) -> dict[str, Tensor]:
        return {"counts": self.counts}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Counts:
        return cls(tensors["counts"])


@dataclass(frozen=True, kw_only=True)
class Popular:
    def fit(self, world: World, trainer: Trainer) -> Fitted:
        counts = np.bincount(world.train.items, minlength=world.n_items).astype(np.float32)
        return Fitted(scorer=Counts(torch.from_numpy(counts).to(world.device)))

    scorer = Counts


COMPONENT = Popular
