"""MixGCF, synthetic negatives: in each layer the hardest of a few random items, mixed with the positive.

Rule: ẽ_k⁽ˡ⁾ = a_l e_i⁽ˡ⁾ + (1 − a_l) e_k⁽ˡ⁾, a_l ~ U(0, 1) for each row and layer
      k_l = argmax_{k ∈ C} e_u · ẽ_k⁽ˡ⁾
      negative = mean of ẽ⁽ˡ⁾ of k_l over layers l = 0 … L
      C = n items, uniform from I ∖ P_u
Note: on MF, which has no layers, this is DNS with a margin made smaller at random.
Cost: n · (L + 1) · d a row
Paper: Huang et al. 2021, MixGCF: An Improved Training Method for Graph Neural Network-based Recommender Systems
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from pspns.candidate_scores import candidate_scores
from pspns.needed_bytes import VECTORS_A_ROW, StepSizes, gradient_bytes
from pspns.negatives._pool_sampler import PoolSampler, pick, pool_bytes
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, World, mean_of, take


@dataclass(frozen=True, kw_only=True)
class MixedNegatives:
    candidates: int = 32
    """Items drawn for each row (n)."""

    only_items: ClassVar[bool] = False
    search: ClassVar[Space] = {"candidates": Choices((2, 4, 8, 16, 32, 64))}

    def __post_init__(self) -> None:
        check_least(self, candidates=1)

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> MixingSampler:
        return MixingSampler(world, seeds, self.candidates)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        choosing = pool_bytes(sizes, self.candidates) + sizes.of_rows(vectors=2 * (sizes.n_layers + 1))
        return max(choosing, sizes.of_rows(vectors=VECTORS_A_ROW)) + gradient_bytes(world, sizes, by_layers=True)


class MixingSampler(PoolSampler):
    reads = "layers"

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        shares = self._stream.fractions(batch.users.shape[1], len(model.layers)).float()  # [replicas, rows, layers]
        mixed = []
        for layer, share in zip(model.layers, shares[..., None].unbind(-2), strict=True):
            # What is mixed in is the same for all candidates, so it does not change which of them is best.
            hardest = candidate_scores(model.final.users, layer.items, batch.users, pool).argmax(-1)
            positive, negative = take(layer.items, torch.stack((batch.items, pick(pool, hardest))), replica_axis=1)
            mixed.append(share * positive + (1 - share) * negative)
        return Negatives(embeddings=mean_of(mixed), base_embeddings=mixed[0])


COMPONENT = MixedNegatives
