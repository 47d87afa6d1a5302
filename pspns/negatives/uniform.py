"""RNS, uniform negatives: any item the user does not have, all equally likely.

Rule: j ~ Uniform(I ∖ P_u)
Cost: one draw a row
Paper: Rendle et al. 2009, BPR: Bayesian Personalized Ranking from Implicit Feedback
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pspns.negatives._stream_sampler import StreamSampler
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld


@dataclass(frozen=True, kw_only=True)
class UniformNegatives:
    owned_too: bool = False
    """Draw from all items, the user's own too, as the code published with DNS(M,N) does."""

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> UniformSampler:
        return UniformSampler(world, seeds, owned_too=self.owned_too)


class UniformSampler(StreamSampler):
    stays_on_device = True
    reads = "nothing"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], *, owned_too: bool = False):
        super().__init__(world, seeds)
        self._owned_too, self._n_items = owned_too, world.n_items

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        if self._owned_too:
            drawn = self._stream.integers(torch.full_like(batch.users, self._n_items))
        else:
            drawn = self._rejected.draw_outside(batch.users, 1, self._stream)
        return Negatives(items=drawn.squeeze(-1))


COMPONENT = UniformNegatives
