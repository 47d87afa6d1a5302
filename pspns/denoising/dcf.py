"""DCF, double correction: pairs whose loss has long been large are left out, the very worst become negatives.

Rule: φ = log(1 + ℓ + ℓ²/2), μ = mean of a pair's last ν φ
      ℓ* = max(0, μ − σ² (m + σ² log(2m) / m²) / (n − σ²)), m = times seen, n = 1 + times kept
      leave out the ε_t share of a batch with the largest ℓ*, ε_t as for T-CE
      of these, the r_T share of the batch with the largest ℓ* is relabelled, r_T = R min(T / O, 1) in epoch T
Note: a pair that was rarely kept has a lower ℓ* than one that was often kept, so it gets another chance.
Cost: the score of each row once more, one sort of the batch
Paper: He et al. 2024, Double Correction Framework for Denoising Recommendation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.denoising._denoising import Denoising
from pspns.denoising._own_pairs import OwnPairs
from pspns.denoising._ramp import Ramp, are_largest, n_kept
from pspns.repetitions import is_repeated
from pspns.rng import ReplicaStream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_below_one, check_choice, check_drop_rate, check_least
from pspns.shapes import DenoisedWorld, JudgedRows, ModelView, Negatives, PositiveBatch, ScoredRows, State
from pspns.training.epochs import ROWS_AT_ONCE

Relabel = Literal["flip", "discard", "keep-label"]
History = Literal["pair", "slot"]
Mean = Literal["window", "since-reset"]
# Other pairs of the user that are looked at for one that was kept; if none was, the row is left out.
TRIES = 8


@dataclass(frozen=True, kw_only=True)
class DoubleCorrection:
    drop_rate: float = 0.2
    """The share of a batch that is left out in the end (ε)."""
    ramp_epochs: float = 10.0
    """Epochs until then."""
    ramp_steps: int | None = None
    """The same in steps; unset: the epochs count. The published code has 30,000."""
    window: int = 3
    """Of how many visits the mean loss is taken (ν)."""
    variance: float = 1e-4
    """How uncertain a mean is (σ²); 0: the mean itself decides."""
    relabel_share: float = 0.05
    """The share of a batch that is relabelled in the end (R)."""
    relabel_epochs: float = 10.0
    """Epochs until then (O)."""
    relabel: Relabel = "flip"
    """What becomes of these: a negative (with bpr against a pair of the user that was kept), nothing (discard), or
    (keep-label) the share R of what is left out is trained as before, from the first epoch on, as the published code
    does."""
    history: History = "pair"
    """Whose losses are remembered: a pair's, or (slot) those at the same place of the shuffled epoch, which are other
    pairs' every time, as in the published code."""
    mean: Mean = "window"
    """Over the last visits, or (since-reset) as the published code has it: forgotten every ν epochs, but divided by all
    epochs."""
    bound_epochs: int | None = None
    """Let σ² fall to 0 in so many epochs, as the published code does; unset: it stays."""

    losses: ClassVar[tuple[str, ...]] = ("bpr", "bce")
    needs_items: ClassVar[bool] = True
    search: ClassVar[Space] = {
        "drop_rate": Choices((0.05, 0.1, 0.2)),
        "variance": Choices((0.0, 1e-4, 0.01, 0.1, 0.5)),
        "relabel_share": Choices((0.0, 0.01, 0.03, 0.05)),
        "window": Choices((1, 2, 3)),
    }

    def __post_init__(self) -> None:
        check_drop_rate(self)
        check_least(self, window=1, variance=0, relabel_share=0)
        check_below_one(self, "variance", "relabel_share")
        check_above_zero(self, "relabel_epochs")
        if self.bound_epochs is not None:
            check_least(self, bound_epochs=1)
        check_choice(self, "relabel", Relabel)
        check_choice(self, "history", History)
        check_choice(self, "mean", Mean)

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> Correcting:
        return Correcting(world, seeds, self)


class Correcting(Denoising):
    reads = "scores"

    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: DoubleCorrection):
        super().__init__(world.loss)
        self._settings = settings
        self._ramp = Ramp(world, settings.drop_rate, settings.ramp_epochs, settings.ramp_steps)
        self._pairs = OwnPairs(world)
        self._stream = ReplicaStream(seeds, "denoiser", world.device)
        self._n_batches = torch.tensor(world.batches_an_epoch, device=world.device)
        self._losses_seen = LossHistory(world, len(seeds), settings)
        self._kept = self._flipped = torch.empty(0)  # [replicas, rows] of the present step

    @torch.no_grad()
    def choose_positives(
        self, batch: PositiveBatch, negatives: Negatives, model: ModelView
    ) -> tuple[PositiveBatch, Negatives]:
        assert negatives.items is not None
        scores = model.score(batch.users, torch.stack((batch.items, negatives.items), -1))
        positive, negative = scores.unbind(-1)
        losses = F.softplus(-positive) if self._is_pointwise else F.softplus(negative - positive)
        ids = batch.pair_ids if self._settings.history == "pair" else self._slots(batch)
        bound = self._losses_seen.lower_bound(losses, ids, batch)
        is_dropped, self._flipped = self._worst(bound, batch)
        is_kept = ~(is_dropped | self._flipped) if self._settings.relabel != "keep-label" else ~is_dropped
        self._losses_seen.note_kept(is_kept, ids, batch)
        self._kept = (is_kept & (batch.live > 0)).float()
        self._ramp.advance()
        if self._settings.relabel == "flip" and not self._is_pointwise:
            return self._as_negatives(batch, negatives)
        return batch, negatives

    def _slots(self, batch: PositiveBatch) -> Tensor:
        """Places in the epoch, which the loader shuffles."""
        n_rows = batch.users.shape[1]
        first = self._ramp.step % self._n_batches * n_rows  # [replicas]
        return first[:, None] + torch.arange(n_rows, device=first.device)

    def _worst(self, bound: Tensor, batch: PositiveBatch) -> tuple[Tensor, Tensor]:
        """Which rows are left out, and which relabelled."""
        share, live = self._ramp.share(), batch.live
        n = live.sum(-1)
        n_all = 2 * n if self._is_pointwise else n  # rows, or samples of either label
        n_dropped = n_all.long() - n_kept(share, n_all)
        worst = are_largest(bound, n_dropped, live)
        if self._settings.relabel == "keep-label":
            taken_back = are_largest(bound, (self._settings.relabel_share * n_dropped).long(), live)
            return worst & ~taken_back, torch.zeros_like(worst)
        ratio = self._settings.relabel_share * (batch.epochs / self._settings.relabel_epochs).clamp_max(1)
        n_flipped = torch.minimum((ratio * n_all).floor().long(), n_dropped)
        flipped = are_largest(bound, n_flipped, live)
        if self._settings.relabel == "discard":
            return worst, torch.zeros_like(flipped)
        return worst & ~flipped, flipped

    def _as_negatives(self, batch: PositiveBatch, negatives: Negatives) -> tuple[PositiveBatch, Negatives]:
        """In rows that are flipped, the item stands against another of the user's that was kept when last seen."""
        sizes = self._pairs.sizes(batch.users)
        others = self._pairs.first_ids(batch.users)[..., None] + self._stream.integers(sizes, TRIES)
        is_good = self._losses_seen.was_kept(others) & (others != batch.pair_ids[..., None])
        found = others.gather(-1, is_good.int().argmax(-1, keepdim=True)).squeeze(-1)
        self._flipped = self._flipped & is_good.any(-1)
        turned = self._pairs.rows(batch.users, torch.where(self._flipped, found, batch.pair_ids), batch)
        assert negatives.items is not None
        return turned, replace(negatives, items=torch.where(self._flipped, batch.items, negatives.items))

    def judge(self, rows: ScoredRows) -> JudgedRows:
        trained = self._kept + self._flipped.float()
        n = rows.batch.live.sum(-1)
        if not self._is_pointwise:
            losses = self._loss(rows.positive, rows.negative) * trained
            return JudgedRows(losses * (n / trained.sum(-1))[:, None], self._kept)
        positive = torch.where(self._flipped, F.softplus(rows.positive), F.softplus(-rows.positive)) * trained
        scale = 2 * n / (n + trained.sum(-1))
        return JudgedRows((positive + F.softplus(rows.negative)) / 2 * scale[:, None], self._kept)

    def keep(self, replicas: Tensor) -> None:
        for part in (self._ramp, self._pairs, self._stream, self._losses_seen):
            part.keep(replicas)
        self._n_batches = self._n_batches[replicas]

    def state(self) -> State:
        return {**self._ramp.state(), **self._stream.state(), **self._losses_seen.state()}

    def load_state(self, state: State) -> None:
        for part in (self._ramp, self._stream, self._losses_seen):
            part.load_state(state)


class LossHistory:
    """What is remembered of each pair (or slot): its last losses, how often it was seen and kept."""

    def __init__(self, world: DenoisedWorld, n_replicas: int, settings: DoubleCorrection):
        n_slots = max(world.batches_an_epoch) * (-(-world.batch_size // ROWS_AT_ONCE) * ROWS_AT_ONCE)
        n = n_slots if settings.history == "slot" else max(len(one.pairs) for one in world.worlds)
        # The last entry takes what is to be forgotten: dead rows, and a pair's second visit in the same step.
        self._last = torch.zeros(n_replicas, n + 1, settings.window, device=world.device)
        self._seen, self._n_kept = (
            torch.zeros(n_replicas, n + 1, dtype=torch.int32, device=world.device) for _ in range(2)
        )
        self._is_kept = torch.ones(n_replicas, n + 1, dtype=torch.bool, device=world.device)
        self._settings, self._n = settings, n

    def lower_bound(self, losses: Tensor, ids: Tensor, batch: PositiveBatch) -> Tensor:
        """ℓ* of each row, this visit included."""
        own = self._own(ids)
        times, last = self._seen[own, ids], self._last[own, ids]
        damped = torch.log1p(losses + losses.square() / 2)
        if self._settings.mean == "window":
            last = last.scatter(-1, (times % self._settings.window).long()[..., None], damped[..., None])
            mean = last.sum(-1) / (times + 1).clamp_max(self._settings.window)
            m = (times + 1).float()
        else:
            m = (batch.epochs[:, None] + 1).float()
            before = torch.where(batch.epochs[:, None] % self._settings.window == 0, 0.0, last[..., 0])
            mean = (before * m + damped) / (m + 1)
            last = torch.cat((mean[..., None], last[..., 1:]), -1)  # one is enough
        into = self._heard(ids, batch)
        self._last[own, into] = last
        self._seen[own, into] = times + 1
        variance, n = self._variance(batch), 1.0 + self._n_kept[own, ids]
        return (mean - variance * (m + variance * torch.log(2 * m) / m.square()) / (n - variance)).clamp_min(0)

    def note_kept(self, is_kept: Tensor, ids: Tensor, batch: PositiveBatch) -> None:
        own, into = self._own(ids), self._heard(ids, batch)
        self._n_kept[own, into] = self._n_kept[own, ids] + is_kept.int()
        self._is_kept[own, into] = is_kept

    def was_kept(self, pair_ids: Tensor) -> Tensor:
        """When these `[replicas, rows, n]` were last seen; one that never was counts as kept."""
        return self._is_kept[self._own(pair_ids), pair_ids]

    def _heard(self, ids: Tensor, batch: PositiveBatch) -> Tensor:
        """Where each row's visit is noted down."""
        return torch.where((batch.live > 0) & ~is_repeated(ids), ids, self._n)

    def _variance(self, batch: PositiveBatch) -> Tensor:
        """`[replicas, 1]`."""
        epochs = self._settings.bound_epochs
        left = (1 - batch.epochs / max(1, epochs - 1)).clamp_min(0) if epochs else torch.ones_like(batch.epochs)
        return (self._settings.variance * left).float()[:, None]

    @staticmethod
    def _own(ids: Tensor) -> Tensor:
        return torch.arange(len(ids), device=ids.device).view(-1, *[1] * (ids.dim() - 1))

    def keep(self, replicas: Tensor) -> None:
        self._last, self._seen, self._n_kept, self._is_kept = (
            values[replicas] for values in (self._last, self._seen, self._n_kept, self._is_kept)
        )

    def state(self) -> State:
        return {
            "last": self._last.clone(),
            "seen": self._seen.clone(),
            "n_kept": self._n_kept.clone(),
            "is_kept": self._is_kept.clone(),
        }

    def load_state(self, state: State) -> None:
        self._last, self._seen, self._n_kept, self._is_kept = (
            state[name].clone() for name in ("last", "seen", "n_kept", "is_kept")
        )


COMPONENT = DoubleCorrection
