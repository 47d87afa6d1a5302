"""R-CE, reweighted loss: a row counts the less, the less the model believes it.

Rule: L = mean of w ℓ, w = σ(s_ui − s_uj)^β without gradient
      with bce, w = σ(s_ui)^β for positives and (1 − σ(s_uj))^β for negatives
Note: |∂L/∂Δ| = p^β (1 − p), p = σ(Δ), is largest at p = β / (1 + β): only rows below that are held back, so a small β
      is nearly plain training. Weights are not scaled to mean 1, so the L2 term weighs a little more.
Cost: one power a row
Paper: Wang et al. 2021, Denoising Implicit Feedback for Recommendation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from pspns.denoising._denoising import Denoising
from pspns.needed_bytes import StepSizes
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least
from pspns.shapes import DenoisedWorld, JudgedRows, ScoredRows, World


@dataclass(frozen=True, kw_only=True)
class ReweightedLoss:
    beta: float = 0.2
    """How strongly doubted rows are held back (β); 0 is plain training."""

    losses: ClassVar[tuple[str, ...]] = ("bpr", "bce")
    search: ClassVar[Space] = {"beta": Choices((0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 1.0))}

    def __post_init__(self) -> None:
        check_least(self, beta=0)

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> Reweighting:
        return Reweighting(world, self.beta)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        return sizes.of_rows(20)


class Reweighting(Denoising):
    def __init__(self, world: DenoisedWorld, beta: float):
        super().__init__(world.loss)
        self._beta = beta

    def judge(self, rows: ScoredRows) -> JudgedRows:
        # A probability is exp(−its loss), and so its power is one, too: without a logarithm of 0.
        if not self._is_pointwise:
            losses = self._loss(rows.positive, rows.negative)
            weights = torch.exp(-self._beta * losses.detach())
            return JudgedRows(weights * losses, weights)
        positive, negative = F.softplus(-rows.positive), F.softplus(rows.negative)
        weights, of_negatives = (torch.exp(-self._beta * losses.detach()) for losses in (positive, negative))
        return JudgedRows((weights * positive + of_negatives * negative) / 2, weights)


COMPONENT = ReweightedLoss
