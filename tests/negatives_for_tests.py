"""A sampler outside the package: always the lowest-numbered item the user does not have."""

from dataclasses import dataclass

import torch

from pspns.shapes import Negatives, take


@dataclass(frozen=True, kw_only=True)
class LowestNegatives:
    def start(self, world, seeds):
        return LowestSampler(world)


class LowestSampler:
    def __init__(self, world):
        owned = torch.from_numpy(world.train.matrix(world.n_users, world.n_items).toarray()) > 0
        self._lowest = (~owned).int().argmax(-1)

    def sample(self, batch, model):
        items = self._lowest[batch.users]
        vectors = take(model.final.items, items)
        return Negatives(embeddings=vectors, base_embeddings=vectors, items=items)

    def keep(self, replicas):
        pass


COMPONENT = LowestNegatives
