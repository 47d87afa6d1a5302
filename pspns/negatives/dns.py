"""DNS, dynamic negatives: of a few random items the one that the model scores highest.

Rule: j = argmax_{k ∈ C} s_uk
      C = n items, uniform from I ∖ P_u
Cost: n · d a row
Paper: Zhang et al. 2013, Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pspns.negatives._checks import check_least
from pspns.negatives._pool_sampler import PoolSampler, pick
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld
from pspns.tuning.space import Choices, Space


@dataclass(frozen=True, kw_only=True)
class DynamicNegatives:
    candidates: int = 32
    """Items drawn for each row (n)."""

    search: ClassVar[Space] = {"candidates": Choices((2, 4, 8, 16, 32))}

    def __post_init__(self) -> None:
        check_least(self, candidates=1)

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> DynamicSampler:
        return DynamicSampler(world, seeds, self.candidates)


class DynamicSampler(PoolSampler):
    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        return Negatives(items=pick(pool, model.score(batch.users, pool).argmax(-1)))


COMPONENT = DynamicNegatives
