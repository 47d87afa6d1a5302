"""T-CE, truncated loss: the rows with the largest loss are left out, more and more of them as training goes on.

Rule: keep the ⌊(1 − ε_t) B⌋ rows of a batch with the smallest ℓ, L = mean of ℓ over them
      ε_t = ε min(t / N, 1)
      with bce, B counts positives and negatives alike, and only positives are left out: of them about 2 ε, so that
      ε with bce corresponds to 2 ε with bpr
Cost: one sort of the batch
Paper: Wang et al. 2021, Denoising Implicit Feedback for Recommendation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from pspns.denoising._denoising import Denoising
from pspns.denoising._ramp import Ramp, are_largest, n_kept
from pspns.needed_bytes import StepSizes
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_choice, check_drop_rate
from pspns.shapes import DenoisedWorld, JudgedRows, ScoredRows, State, World

RankBy = Literal["loss", "positive"]


@dataclass(frozen=True, kw_only=True)
class TruncatedLoss:
    drop_rate: float = 0.2
    """The share of a batch that is left out in the end (ε)."""
    ramp_epochs: float = 10.0
    """Epochs until then."""
    ramp_steps: int | None = None
    """The same in steps (N); unset: the epochs count. The published code has 30,000."""
    rank_by: RankBy = "loss"
    """What makes a row large: its loss, or (with bpr) that of its positive alone, softplus(−s_ui), so that a random
    negative does not decide."""

    losses: ClassVar[tuple[str, ...]] = ("bpr", "bce")
    search: ClassVar[Space] = {"drop_rate": Choices((0.05, 0.1, 0.2)), "ramp_epochs": Choices((5.0, 10.0, 20.0))}

    def __post_init__(self) -> None:
        check_drop_rate(self)
        check_choice(self, "rank_by", RankBy)

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> Truncating:
        return Truncating(world, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        return sizes.of_rows(20)


class Truncating(Denoising):
    def __init__(self, world: DenoisedWorld, settings: TruncatedLoss):
        super().__init__(world.loss)
        self._ramp = Ramp(world, settings.drop_rate, settings.ramp_epochs, settings.ramp_steps)
        self._rank_by = settings.rank_by

    def judge(self, rows: ScoredRows) -> JudgedRows:
        share = self._ramp.share()
        self._ramp.advance()
        return self._truncated_points(rows, share) if self._is_pointwise else self._truncated_pairs(rows, share)

    def _truncated_pairs(self, rows: ScoredRows, share: Tensor) -> JudgedRows:
        live = rows.batch.live
        losses = self._loss(rows.positive, rows.negative)
        n = live.sum(-1)
        kept_n = n_kept(share, n)
        key = losses if self._rank_by == "loss" else F.softplus(-rows.positive)
        kept = 1 - are_largest(key, n.long() - kept_n, live).float()
        return JudgedRows(losses * kept * (n / kept_n)[:, None], kept)

    def _truncated_points(self, rows: ScoredRows, share: Tensor) -> JudgedRows:
        live = rows.batch.live
        positive, negative = F.softplus(-rows.positive), F.softplus(rows.negative)
        n = live.sum(-1)
        kept_n = n_kept(share, 2 * n)
        n_dropped = 2 * n.long() - kept_n
        kept = 1 - are_largest(positive, n_dropped, live).float()
        # Once no positive is left, negatives go, which are all alike.
        kept_negatives = (live.cumsum(-1) > (n_dropped - n)[:, None]).float()
        losses = (positive * kept + negative * kept_negatives) / 2 * (2 * n / kept_n)[:, None]
        return JudgedRows(losses, kept)

    def keep(self, replicas: Tensor) -> None:
        self._ramp.keep(replicas)

    def state(self) -> State:
        return self._ramp.state()

    def load_state(self, state: State) -> None:
        self._ramp.load_state(state)


COMPONENT = TruncatedLoss
