"""A sampler outside the package: always the lowest-numbered item the user does not have."""

from dataclasses import dataclass

import torch

from pspns.negatives._stream_sampler import StreamSampler
from pspns.shapes import Negatives


@dataclass(frozen=True, kw_only=True)
class LowestNegatives:
    def start(self, world, seeds):
        return LowestSampler(world, seeds)


class LowestSampler(StreamSampler):
    def __init__(self, world, seeds):
        super().__init__(world, seeds)
        owned = torch.from_numpy(world.train.matrix(world.n_users, world.n_items).toarray()) > 0
        self._lowest = (~owned).int().argmax(-1)

    def sample(self, batch, model):
        return Negatives(items=self._lowest[batch.users])


COMPONENT = LowestNegatives
