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

import torch
from torch import Tensor

from pspns.needed_bytes import StepSizes
from pspns.negatives._pool_sampler import PoolSampler, pick, pool_bytes
from pspns.negatives._snapshots import Snapshots
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, State, World


@dataclass(frozen=True, kw_only=True)
class DynamicNegatives:
    candidates: int = 32
    """Items drawn for each row (n)."""
    frozen_scores: bool = False
    """Score candidates by the model as it was at the beginning of the epoch, as the DNS in the code of IRGAN does."""

    search: ClassVar[Space] = {"candidates": Choices((2, 4, 8, 16, 32))}

    def __post_init__(self) -> None:
        check_least(self, candidates=1)

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> DynamicSampler:
        return DynamicSampler(world, seeds, self.candidates, frozen_scores=self.frozen_scores)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        frozen = sizes.of_nodes(world.n_users + world.n_items, vectors=1) if self.frozen_scores else 0
        return pool_bytes(sizes, self.candidates) + frozen


class DynamicSampler(PoolSampler):
    def __init__(self, world: SharedWorld, seeds: Sequence[int], candidates: int, *, frozen_scores: bool = False):
        super().__init__(world, seeds, candidates)
        self._frozen = Snapshots(world, len(seeds), 1) if frozen_scores else None
        self.follows_epochs = frozen_scores

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        return Negatives(items=pick(pool, self._scores(batch, model, pool).argmax(-1)))

    def _scores(self, batch: PositiveBatch, model: ModelView, pool: Tensor) -> Tensor:
        now = model.score(batch.users, pool)
        if self._frozen is None:
            return now
        # In the first epoch there is no earlier model.
        is_there = self._frozen.is_there()[:, :, None]
        return torch.where(is_there, self._frozen.score(batch.users, pool).squeeze(-1), now)

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        if self._frozen:
            self._frozen.take(replicas, model)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        if self._frozen:
            self._frozen.keep(replicas)

    def state(self) -> State:
        return {**super().state(), **(self._frozen.state() if self._frozen else {})}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        if self._frozen:
            self._frozen.load_state(state)


COMPONENT = DynamicNegatives
