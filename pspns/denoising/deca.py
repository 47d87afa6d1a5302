"""DeCA: two models are taught to agree, since they agree less on noise than on true labels.

Rule: K = α KL(g‖f) + (1 − α) KL(f‖g), f = σ(s), g a second model, h = P(observed | not liked), h′ = P(observed | liked)
      even steps: L = Σ K − (1 − f_i) log h_i − (1 − f_j) log(1 − h_j) + C₁ f_j
      odd steps: L = Σ K − f_i log h′_i + C₂ (1 − f_i) − f_j log(1 − h′_j)
      g, h and h′ are matrix factorisations that learn beside the model; h in even steps only, h′ in odd ones
Note: the loss is its own, pointwise: set `--loss bce`. Scores are those of f alone.
Cost: three more models, d = 32
Paper: Wang et al. 2022, Learning Robust Recommenders through Cross-Model Agreement
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from pspns.denoising._agreement import Agreement, AgreementSettings, logits_of
from pspns.needed_bytes import StepSizes
from pspns.shapes import DenoisedWorld, ScoredRows, World


@dataclass(frozen=True, kw_only=True)
class CrossModelAgreement(AgreementSettings):
    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> LearningToAgree:
        return LearningToAgree(world, seeds, self, "g")

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        return self._models_bytes(3, world, sizes)


class LearningToAgree(Agreement):
    def _other_logits(self, tables: Mapping[str, Tensor], rows: ScoredRows) -> Tensor:
        return logits_of(tables, "g", rows)


COMPONENT = CrossModelAgreement
