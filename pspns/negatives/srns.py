"""SRNS, simplify and robustify: of a user's remembered items one that scores high and whose score has been moving.

Rule: j = argmax_{k ∈ M_u} σ(s_uk − s_ui) + α min(1, t / T₀) v_k
      v_k = standard deviation of σ(s_uk − s_ui) over the last 5 epoch ends, t = epochs ended
      M_u ← S₁ items of M_u ∪ F, drawn without replacement with p(k) ∝ exp(s_uk / τ)
      F = S₂ items, uniform from I ∖ P_u
Note: a user's memory M_u begins with random items; it is renewed once a batch for each user in it. F is drawn with
replacement, and an item that is there twice counts once.
Cost: (7 S₁ + S₂) · d a row
Paper: Ding et al. 2020, Simplify and Robustify Negative Sampling for Implicit Collaborative Filtering
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pspns.needed_bytes import StepSizes
from pspns.negatives._pool_sampler import pick
from pspns.negatives._snapshots import Snapshots
from pspns.negatives._stream_sampler import StreamSampler
from pspns.repetitions import is_repeated
from pspns.rng import ReplicaStream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, State, World

EPOCHS_REMEMBERED = 5
FAR_BELOW = -1e30  # any score


@dataclass(frozen=True, kw_only=True)
class RememberedNegatives:
    memory: int = 8
    """Items remembered for each user (S₁)."""
    fresh: int = 64
    """Random items that may join the memory (S₂)."""
    temperature: float = 10.0
    """How evenly the memory is drawn (τ); towards 0 the highest-scored items stay."""
    variance_weight: float = 5.0
    """How much a moving score counts beside a high one (α)."""
    warm_up: int = 50
    """Epochs over which that weight grows to its full size (T₀)."""
    variance_only: bool = False
    """Choose by how much scores move alone, as the published code does for a negative α."""
    forgets: bool = False
    """Fill the memory at random after every epoch, as the published code for real data does in effect: it swaps the
    items that the remembered places stand for."""

    search: ClassVar[Space] = {
        "memory": Choices((4, 8, 16)),
        "temperature": Choices((1.0, 10.0)),
        "variance_weight": Choices((0.0, 1.0, 5.0, 10.0)),
    }

    def __post_init__(self) -> None:
        check_least(self, memory=1, fresh=1, variance_weight=0, warm_up=0)
        check_above_zero(self, "temperature")

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> RememberingSampler:
        return RememberingSampler(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        past = sizes.of_nodes(world.n_users + world.n_items, vectors=EPOCHS_REMEMBERED)
        remembered = sizes.of_nodes(world.n_users, 8 * (self.memory + 1))
        # One after the other: past scores and what is made of them; six columns of numbers of all that may stay.
        choosing, renewing = 22 * EPOCHS_REMEMBERED * (self.memory + 1), 50 * (self.memory + self.fresh)
        return past + remembered + sizes.of_rows(max(choosing, renewing))


class RememberingSampler(StreamSampler):
    stays_on_device = True
    follows_epochs = True
    reads = "scores"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], settings: RememberedNegatives):
        super().__init__(world, seeds)
        self._settings = settings
        self._everybody = torch.arange(world.n_users, device=world.device)
        self._snapshots = Snapshots(world, len(seeds), EPOCHS_REMEMBERED)
        # Apart from the other numbers, because replicas may end epochs at different steps.
        self._filling = ReplicaStream(seeds, "memory", world.device)
        self._memory = self._random_memory(len(seeds), 0)  # [replicas, n_users, memory]

    @torch.no_grad()
    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        own = torch.arange(len(self._memory), device=self._memory.device)[:, None]
        remembered = self._memory[own, batch.users]  # [replicas, rows, memory]
        items = pick(remembered, self._worth(batch, model, remembered).argmax(-1))
        self._renew(batch, model, own, remembered)
        return Negatives(items=items)

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        self._snapshots.take(replicas, model)
        if self._settings.forgets:
            for replica in replicas:
                n_ended = int(self._snapshots.n_taken[replica])
                self._memory[replica] = self._random_memory(len(self._memory), n_ended)[replica]

    def _worth(self, batch: PositiveBatch, model: ModelView, items: Tensor) -> Tensor:
        """How good a negative each of the remembered items is, `[replicas, rows, memory]`."""
        with_positive = torch.cat((items, batch.items[..., None]), -1)
        now = model.score(batch.users, with_positive)
        hardness = torch.sigmoid(now[..., :-1] - now[..., -1:])
        then = self._snapshots.score(batch.users, with_positive)  # [replicas, rows, memory + 1, epochs]
        deviation = _deviation(torch.sigmoid(then[..., :-1, :] - then[..., -1:, :]), self._snapshots.is_there())
        if self._settings.variance_only:
            return deviation
        whole = max(self._settings.warm_up, 1)
        warmth = torch.where(batch.epochs < self._settings.warm_up, batch.epochs / whole, 1.0)
        return hardness + self._settings.variance_weight * warmth[:, None, None].float() * deviation

    def _renew(self, batch: PositiveBatch, model: ModelView, own: Tensor, remembered: Tensor) -> None:
        """Let fresh items into the memory of the batch's users."""
        fresh = self._rejected.draw_outside(batch.users, self._settings.fresh, self._stream)
        pool = torch.cat((remembered, fresh), -1)
        weights = model.score(batch.users, pool) / self._settings.temperature
        # Gumbel's trick: the largest of weight + noise are a draw without replacement in proportion to exp(weight).
        noise = -torch.log(-torch.log(self._stream.fractions(*pool.shape[1:]).clamp_min(1e-300))).float()
        # An item that is there twice counts once; only where there is nothing else does it stay twice.
        keys = torch.where(is_repeated(pool), FAR_BELOW, weights + noise)
        staying = pool.gather(-1, keys.topk(self._settings.memory).indices)
        # Of a user's rows in the batch the last one is heard, and none that only fills the block.
        rows = torch.arange(batch.users.shape[1], device=own.device).expand_as(batch.users)
        heard = torch.full(self._memory.shape[:2], -1, device=own.device)
        heard.scatter_reduce_(1, batch.users, torch.where(batch.live > 0, rows, -1), "amax")
        row = heard.gather(1, batch.users)  # [replicas, rows]
        renewed = staying[own, row.clamp_min(0)]
        self._memory[own, batch.users] = torch.where(row[..., None] >= 0, renewed, remembered)

    def _random_memory(self, n_replicas: int, n_ended: int) -> Tensor:
        """For everybody, after so many epochs; the same item may be there twice."""
        self._filling.calls = n_ended
        users = self._everybody.expand(n_replicas, -1)
        return self._rejected.draw_outside(users, self._settings.memory, self._filling)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        self._filling.keep(replicas)
        self._snapshots.keep(replicas)
        self._memory = self._memory[replicas]

    def state(self) -> State:
        past = {f"past_{name}": values for name, values in self._snapshots.state().items()}
        return {**super().state(), **past, "memory": self._memory.clone()}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._snapshots.load_state({name.removeprefix("past_"): values for name, values in state.items()})
        self._memory = state["memory"].clone()


def _deviation(values: Tensor, is_there: Tensor) -> Tensor:
    """Of a population, over the last axis, of those values that are there; 0 where there is none."""
    present = is_there[:, None, None, :].float()
    n = present.sum(-1).clamp_min(1)
    mean = (values * present).sum(-1) / n
    return (((values - mean[..., None]) * present).square().sum(-1) / n).sqrt()


COMPONENT = RememberedNegatives
