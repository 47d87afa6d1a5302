"""DNS(M,N): of N random items one of the M that the model scores highest.

Rule: j ~ Uniform(the M items of C with the highest s_uk)
      C = N items, uniform from I ∖ P_u
Note: M = 1 is DNS; M = N is uniform.
Cost: N · d and a selection a row
Paper: Shi et al. 2023, On the Theories Behind Hard Negative Sampling for Recommendation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.errors import SettingsError
from pspns.needed_bytes import VECTORS_A_ROW, StepSizes, gradient_bytes
from pspns.negatives._pool_sampler import PoolSampler, pick, pool_bytes
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, World, take


@dataclass(frozen=True, kw_only=True)
class BestOfManyNegatives:
    candidates: int = 200
    """Items drawn for each row (N)."""
    best: int = 2
    """How many of them, the highest-scored, may be the negative (M)."""
    sum_over_best: bool = False
    """Add up BPR over all M instead of drawing one of them, as the published code does: gradients M times as large. The
    L2 term still holds only the best of them small."""
    owned_too: bool = False
    """Draw candidates from all items, the user's own too, as the published code does."""

    search: ClassVar[Space] = {"candidates": Choices((32, 200)), "best": Choices((1, 2, 5, 10, 20))}

    def __post_init__(self) -> None:
        check_least(self, candidates=1, best=1)
        if self.best > self.candidates:
            raise SettingsError(
                f"best must be at most candidates ({self.candidates}), got {self.best}; change [negatives] best"
            )

    @property
    def losses(self) -> tuple[str, ...]:
        """The sum is one of BPR, whatever else the loss may be."""
        return ("bpr",) if self.sum_over_best else ()

    @property
    def only_items(self) -> bool:
        """The sum is a loss of its own beside the negative."""
        return not self.sum_over_best

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> BestOfManySampler:
        return BestOfManySampler(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        needed = pool_bytes(sizes, self.candidates + self.best)
        if self.sum_over_best:
            vectors = VECTORS_A_ROW + 3 * (self.best - 1)
            needed = max(needed, sizes.of_rows(vectors=vectors)) + gradient_bytes(world, sizes)
        return needed


class BestOfManySampler(PoolSampler):
    def __init__(self, world: SharedWorld, seeds: Sequence[int], settings: BestOfManyNegatives):
        super().__init__(world, seeds, settings.candidates, owned_too=settings.owned_too)
        self._best, self._sum = settings.best, settings.sum_over_best
        self.reads = "gradients" if self._sum else "scores"

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        best = pool.gather(-1, model.score(batch.users, pool).topk(self._best).indices)  # [replicas, rows, M]
        if self._sum:
            return Negatives(items=best[..., 0], row_losses=_bpr_of_all(batch, best[..., 1:], model))
        drawn = self._stream.integers(torch.full_like(batch.users, self._best)).squeeze(-1)
        return Negatives(items=pick(best, drawn))


def _bpr_of_all(batch: PositiveBatch, items: Tensor, model: ModelView) -> Tensor:
    """The sum over `[replicas, rows, n]` negatives, with gradient: `[replicas, rows]`."""
    users = take(model.final.users, batch.users)
    positive = (users * take(model.final.items, batch.items)).sum(-1)
    negative = (users[..., None, :] * take(model.final.items, items)).sum(-1)
    return F.softplus(negative - positive[..., None]).sum(-1)


COMPONENT = BestOfManyNegatives
