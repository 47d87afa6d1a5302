"""AHNS, adaptive hardness: of a few random items the one whose score is nearest to what suits the positive's score.

Rule: j = argmin_{k ∈ C} |s_uk − β (s_ui + α)^(p + 1)|
      C = n items, uniform from I ∖ P_u
Note: with p = −2 the target is β / (s_ui + α): the better the positive already scores, the easier the negative.
The defaults are published for matrix factorisation. Where most scores come to lie above the target, as in LightGCN, the
items nearest to it are the easiest, and what scores high is no longer pushed down: raise β, lower α, or look elsewhere.
Cost: (n + 1) · d a row
Paper: Lai et al. 2024, Adaptive Hardness Negative Sampling for Collaborative Filtering
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pspns.errors import SettingsError
from pspns.needed_bytes import StepSizes
from pspns.negatives._pool_sampler import PoolSampler, pick, pool_bytes
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_finite, check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, World


@dataclass(frozen=True, kw_only=True)
class AdaptiveNegatives:
    candidates: int = 32
    """Items drawn for each row (n)."""
    alpha: float = 1.0
    """Added to the positive's score (α); below −α the rule turns round: see `least_base`."""
    beta: float = 0.1
    """How high a score the negative should have (β)."""
    power: float = -2.0
    """How fast hardness falls as the positive scores better (p); −1: the target is β whatever the positive."""
    least_base: float | None = None
    """Smallest value taken for s_ui + α. Unset, as published: where a positive scores below −α, the target is negative,
    and its negatives are the easiest just when hard ones are wanted."""

    search: ClassVar[Space] = {
        "candidates": Choices((8, 16, 32)),
        "alpha": Choices((0.1, 0.5, 1.0, 2.0)),
        "beta": Choices((0.1, 0.2, 0.3, 0.4, 0.5)),
    }

    def __post_init__(self) -> None:
        check_least(self, candidates=1, beta=0)
        check_finite(self, "alpha", "power")
        if self.least_base is not None:
            check_above_zero(self, "least_base")
        elif not float(self.power).is_integer():
            raise SettingsError(
                f"power must be a whole number unless least_base is set, got {self.power:g}: other powers of numbers "
                "below 0 do not exist; set [negatives] least_base, to 0.01 say"
            )

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> AdaptiveSampler:
        return AdaptiveSampler(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        return pool_bytes(sizes, 2 * (self.candidates + 1))  # once more with the positive; then scores and distances

    def target(self, positive: Tensor) -> Tensor:
        """The score that suits a negative, given those of positives."""
        base = positive + self.alpha
        if self.least_base is not None:
            base = base.clamp_min(self.least_base)
        return self.beta * base ** (self.power + 1)


class AdaptiveSampler(PoolSampler):
    def __init__(self, world: SharedWorld, seeds: Sequence[int], settings: AdaptiveNegatives):
        super().__init__(world, seeds, settings.candidates)
        self._target = settings.target

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        scores = model.score(batch.users, torch.cat((pool, batch.items[..., None]), -1))
        distance = (scores[..., :-1] - self._target(scores[..., -1:])).abs()
        return Negatives(items=pick(pool, distance.argmin(-1)))


COMPONENT = AdaptiveNegatives
