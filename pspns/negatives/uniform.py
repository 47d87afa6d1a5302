"""RNS, uniform negatives: any item the user does not have, all equally likely.

Rule: j ~ Uniform(I ∖ P_u)
Cost: one draw a row
Paper: Rendle et al. 2009, BPR: Bayesian Personalized Ranking from Implicit Feedback
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pspns.negatives._pool_sampler import PoolSampler
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld


@dataclass(frozen=True, kw_only=True)
class UniformNegatives:
    owned_too: bool = False
    """Draw from all items, the user's own too, as the code published with DNS(M,N) does."""

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> UniformSampler:
        return UniformSampler(world, seeds, owned_too=self.owned_too)


class UniformSampler(PoolSampler):
    reads = "nothing"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], *, owned_too: bool = False):
        super().__init__(world, seeds, candidates=1, owned_too=owned_too)

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        return Negatives(items=self._pool(batch).squeeze(-1))


COMPONENT = UniformNegatives
