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
from pspns.denoising._own_pairs import OwnPairs, own_pairs_bytes
from pspns.denoising._ramp import Ramp, n_kept, places_by_size, share_of
from pspns.needed_bytes import StepSizes
from pspns.repetitions import is_repeated
from pspns.rng import ReplicaStream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_below_one, check_choice, check_drop_rate, check_least
from pspns.shapes import DenoisedWorld, JudgedRows, ModelView, Negatives, PositiveBatch, ScoredRows, State, World
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
    """What becomes of these: a negative (with bpr against a pair of the user that was kept), nothing (discard: they are
    left out like the others), or (keep-label) the share R of what is left out is trained as before, from the first
    epoch on, and n counts the visits outside of it, as the published code has it."""
    history: History = "pair"
    """Whose losses are remembered: a pair's, or (slot) those at the same place of the shuffled epoch, which are other
    pairs' every time, as in the published code."""
    mean: Mean = "window"
    """Over the last visits, or (since-reset) as the published code has it: forgotten every ν epochs together with n,
    which begins at 2, but divided by all epochs."""
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

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        n_batches = -(-world.pairs.n_visits // sizes.batch_size)
        n = n_batches * sizes.n_rows if self.history == "slot" else len(world.pairs)
        window = 1 if self.mean == "since-reset" else self.window
        remembered = sizes.of_nodes(n, 4 * window + 8) + sizes.of_nodes(len(world.pairs), 1)
        # One after the other: what is remembered of the rows, before and after; four numbers of each possible partner.
        choosing, turning = 8 * window + 40, 4 * 8 * TRIES if self.relabel == "flip" else 0
        return own_pairs_bytes(world) + remembered + sizes.of_rows(max(choosing, turning))


class Correcting(Denoising):
    reads = "scores"

    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: DoubleCorrection):
        super().__init__(world.loss)
        self._settings = settings
        self._ramp = Ramp(world, settings.drop_rate, settings.ramp_epochs, settings.ramp_steps)
        self._pairs = OwnPairs(world)
        self._stream = ReplicaStream(seeds, "denoiser", world.device)
        self._n_batches = torch.tensor(world.batches_an_epoch, device=world.device)
        self._history = LossHistory(world, len(seeds), settings)
        n_pairs = max(len(one.pairs) for one in world.worlds)
        # [replicas, pairs + 1] when last seen; the last entry takes what is not remembered.
        self._was_kept = torch.ones(len(seeds), n_pairs + 1, dtype=torch.bool, device=world.device)
        self._kept = self._flipped = torch.empty(0)  # [replicas, rows] of the present step

    @torch.no_grad()
    def choose_positives(
        self, batch: PositiveBatch, negatives: Negatives, model: ModelView
    ) -> tuple[PositiveBatch, Negatives]:
        assert negatives.items is not None
        scores = model.score(batch.users, torch.stack((batch.items, negatives.items), -1))
        positive, negative = scores.unbind(-1)
        losses = F.softplus(-positive) if self._is_pointwise else F.softplus(negative - positive)
        of_pairs = Visits.of(batch.pair_ids, batch.live)
        visits = of_pairs if self._settings.history == "pair" else Visits.of(self._slots(batch), batch.live)
        bound = self._history.lower_bound(losses, visits, batch.epochs)
        is_worst, is_relabelled = self._worst(bound, batch)
        keeps_label = self._settings.relabel == "keep-label"
        is_kept = ~is_worst | is_relabelled if keeps_label else ~is_worst
        self._history.count(~is_relabelled if keeps_label else is_kept, visits)
        self._was_kept[of_pairs.own, of_pairs.into] = is_kept
        self._flipped = is_relabelled & (self._settings.relabel == "flip")
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
        """Which rows have the largest losses, and which of these are relabelled."""
        n = batch.live.sum(-1)
        n_all = 2 * n if self._is_pointwise else n  # rows, or samples of either label
        n_worst = n_all.long() - n_kept(self._ramp.share(), n_all)
        if self._settings.relabel == "keep-label":
            n_relabelled = share_of(self._settings.relabel_share, n_worst)
        else:
            ratio = self._settings.relabel_share * (batch.epochs.double() / self._settings.relabel_epochs).clamp_max(1)
            n_relabelled = torch.minimum(share_of(ratio, n_all), n_worst)
        places, is_live = places_by_size(bound, batch.live), batch.live > 0
        return (places < n_worst[:, None]) & is_live, (places < n_relabelled[:, None]) & is_live

    def _as_negatives(self, batch: PositiveBatch, negatives: Negatives) -> tuple[PositiveBatch, Negatives]:
        """In rows that are flipped, the item stands against another of the user's that was kept when last seen."""
        sizes = self._pairs.sizes(batch.users)
        others = self._pairs.first_ids(batch.users)[..., None] + self._stream.integers(sizes, TRIES)
        was_kept = self._was_kept[own_replicas(others), others]
        is_good = was_kept & (others != batch.pair_ids[..., None])
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
        for part in (self._ramp, self._pairs, self._stream, self._history):
            part.keep(replicas)
        self._n_batches, self._was_kept = self._n_batches[replicas], self._was_kept[replicas]

    def state(self) -> State:
        was_kept = self._was_kept[:, :-1].clone()
        return {**self._ramp.state(), **self._stream.state(), **self._history.state(), "was_kept": was_kept}

    def load_state(self, state: State) -> None:
        for part in (self._ramp, self._stream, self._history):
            part.load_state(state)
        self._was_kept[:, :-1] = state["was_kept"]


def own_replicas(ids: Tensor) -> Tensor:
    """Each replica's number, to be put before its `ids`."""
    return torch.arange(len(ids), device=ids.device).view(-1, *[1] * (ids.dim() - 1))


@dataclass(frozen=True)
class Visits:
    """Where the rows of a batch stand in a table `[replicas, pairs or slots, …]` whose last entry is never read."""

    own: Tensor  # [replicas, 1]
    ids: Tensor  # [replicas, rows]
    into: Tensor  # [replicas, rows] the same, or −1 for what is not to be remembered

    @classmethod
    def of(cls, ids: Tensor, live: Tensor) -> Visits:
        """Dead rows are not remembered, nor is a pair's second visit in the same step."""
        into = torch.where(live > 0, ids, -1)
        return cls(own_replicas(ids), ids, torch.where(is_repeated(into), -1, into))


class LossHistory:
    """What is remembered of each pair (or slot): its last losses, how often it was seen and kept."""

    def __init__(self, world: DenoisedWorld, n_replicas: int, settings: DoubleCorrection):
        n_slots = max(world.batches_an_epoch) * (-(-world.batch_size // ROWS_AT_ONCE) * ROWS_AT_ONCE)
        n = n_slots if settings.history == "slot" else max(len(one.pairs) for one in world.worlds)
        self._forgets = settings.mean == "since-reset"
        self._last = torch.zeros(n_replicas, n + 1, 1 if self._forgets else settings.window, device=world.device)
        self._n_seen, self._n_kept = (
            torch.zeros(n_replicas, n + 1, dtype=torch.int32, device=world.device) for _ in range(2)
        )
        self._settings = settings

    def lower_bound(self, losses: Tensor, visits: Visits, epochs: Tensor) -> Tensor:
        """ℓ* of each row, this visit included."""
        damped = torch.log1p(losses + losses.square() / 2)
        if self._forgets:
            mean, m, n = self._since_reset(damped, visits, epochs)
        else:
            mean, m, n = self._of_window(damped, visits)
        variance = self._variance(epochs)
        return (mean - variance * (m + variance * torch.log(2 * m) / m.square()) / (n - variance)).clamp_min(0)

    def _of_window(self, damped: Tensor, visits: Visits) -> tuple[Tensor, Tensor, Tensor]:
        """μ, m and n."""
        own, window = visits.own, self._settings.window
        n_before, last = self._n_seen[own, visits.ids], self._last[own, visits.ids]
        last = last.scatter(-1, (n_before % window).long()[..., None], damped[..., None])
        self._last[own, visits.into] = last
        self._n_seen[own, visits.into] = n_before + 1
        mean = last.sum(-1) / (n_before + 1).clamp_max(window)
        return mean, (n_before + 1).float(), 1.0 + self._n_kept[own, visits.ids]

    def _since_reset(self, damped: Tensor, visits: Visits, epochs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same as the published code has it."""
        own, is_reset = visits.own, (epochs % self._settings.window == 0)[:, None]
        before = self._last[own, visits.ids, 0].masked_fill(is_reset, 0.0)
        n_kept_before = self._n_kept[own, visits.ids].masked_fill(is_reset, 0)
        m = (epochs[:, None] + 1).float()
        mean = (before * m + damped) / (m + 1)
        self._last[own, visits.into, 0] = mean
        self._n_kept[own, visits.into] = n_kept_before
        return mean, m, 2.0 + n_kept_before

    def count(self, is_kept: Tensor, visits: Visits) -> None:
        """Towards n."""
        self._n_kept[visits.own, visits.into] = self._n_kept[visits.own, visits.ids] + is_kept.int()

    def _variance(self, epochs: Tensor) -> Tensor:
        """`[replicas, 1]`."""
        last = self._settings.bound_epochs
        left = (1 - epochs / max(1, last - 1)).clamp_min(0) if last else torch.ones_like(epochs)
        return (self._settings.variance * left).float()[:, None]

    def keep(self, replicas: Tensor) -> None:
        self._last, self._n_seen, self._n_kept = (values[replicas] for values in self._tensors.values())

    @property
    def _tensors(self) -> State:
        return {"last": self._last, "n_seen": self._n_seen, "n_kept": self._n_kept}

    def state(self) -> State:
        return {name: values[:, :-1].clone() for name, values in self._tensors.items()}

    def load_state(self, state: State) -> None:
        for name, values in self._tensors.items():
            values[:, :-1] = state[name]


COMPONENT = DoubleCorrection
