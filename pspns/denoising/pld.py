"""PLD, resampling by personal loss: of a few of the user's items, those with a small loss are likelier to be trained.

Rule: u ~ uniform over users, C = k items of u, j as drawn for u
      i ~ softmax_{v ∈ C}(−ℓ_v / τ), ℓ_v = softplus(s_uj − s_uv)
      L = BPR of (u, i, j); in the first epochs i ~ uniform over C
      a pair with copies is as many items of u
Note: that each user is as likely as any other is itself a weighting against active users; `users = interaction` leaves
      each user as likely as plain training has it.
Cost: k · d a row
Paper: Zhang et al. 2025, Personalized Denoising Implicit Feedback for Robust Recommender System
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.denoising._denoising import Denoising
from pspns.denoising._own_pairs import OwnPairs, own_pairs_bytes
from pspns.needed_bytes import StepSizes
from pspns.rng import ReplicaStream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_choice, check_least
from pspns.shapes import DenoisedWorld, JudgedRows, ModelView, Negatives, PositiveBatch, ScoredRows, State, World

UserSampling = Literal["uniform", "interaction"]


@dataclass(frozen=True, kw_only=True)
class PersonalLossDraw:
    pool: int = 5
    """Items of the user among which one is drawn (k); 1 is plain sampling."""
    temperature: float = 0.1
    """How little the loss decides (τ): towards 0 the smallest always wins, far above 1 all are alike."""
    warm_up: int = 5
    """Epochs in which items are drawn at random."""
    users: UserSampling = "uniform"
    """Whose rows: those of all users alike, or (interaction) those of the batch, where active users have more."""

    losses: ClassVar[tuple[str, ...]] = ("bpr",)
    needs_items: ClassVar[bool] = True
    search: ClassVar[Space] = {"pool": Choices((2, 3, 5, 10)), "temperature": Choices((0.01, 0.05, 0.1, 0.5, 1.0))}

    def __post_init__(self) -> None:
        check_least(self, pool=1, warm_up=0)
        check_above_zero(self, "temperature")
        check_choice(self, "users", UserSampling)

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> PersonalLossDrawing:
        return PersonalLossDrawing(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        return own_pairs_bytes(world) + sizes.of_rows(48 * self.pool + 20)


class PersonalLossDrawing(Denoising):
    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: PersonalLossDraw):
        super().__init__(world.loss)
        self._settings = settings
        self._pairs = OwnPairs(world)
        self._stream = ReplicaStream(seeds, "denoiser", world.device)
        self.reads = "scores" if settings.pool > 1 else "nothing"

    def choose_users(self, batch: PositiveBatch) -> PositiveBatch:
        if self._settings.users == "interaction":
            return batch
        n_active = self._pairs.n_active[:, None].expand_as(batch.users)
        users = self._pairs.active_users(self._stream.integers(n_active).squeeze(-1))
        visits = self._stream.integers(self._pairs.n_visits(users)).squeeze(-1)
        return self._pairs.rows(users, self._pairs.visited(users, visits), batch)

    @torch.no_grad()
    def choose_positives(
        self, batch: PositiveBatch, negatives: Negatives, model: ModelView
    ) -> tuple[PositiveBatch, Negatives]:
        if self._settings.pool == 1:
            return batch, negatives
        assert negatives.items is not None
        pool = self._pool(batch)  # [replicas, rows, k] numbers of pairs
        items = torch.cat((self._pairs.items(pool), negatives.items[..., None]), -1)
        scores = model.score(batch.users, items)
        losses = F.softplus(scores[..., -1:] - scores[..., :-1])
        chosen = self._draw(torch.softmax(-losses / self._settings.temperature, -1))
        drawn = pool.gather(-1, chosen[..., None]).squeeze(-1)
        is_warm = (batch.epochs >= self._settings.warm_up)[:, None]
        return self._pairs.rows(batch.users, torch.where(is_warm, drawn, batch.pair_ids), batch), negatives

    def _pool(self, batch: PositiveBatch) -> Tensor:
        """The row's own pair and others of its user: distinct if there are enough, else any, with repetition."""
        n_others, users = self._settings.pool - 1, batch.users[..., None]
        n, own = self._pairs.n_visits(users), self._pairs.first_visits(users, batch.pair_ids[..., None])
        are_enough = n > n_others
        # Floyd's draw of m of N without repetition: the t-th is at most N − m + t, and becomes just that if its number
        # was drawn before.
        last = n - 1 - n_others + torch.arange(n_others, device=n.device)
        below = torch.where(are_enough, last + 1, n)
        drawn = self._stream.integers(below.flatten(1)).view(below.shape)
        others = drawn[..., :1]
        for t in range(1, n_others):
            place = drawn[..., t : t + 1]
            is_taken = are_enough & (others == place).any(-1, keepdim=True)
            others = torch.cat((others, torch.where(is_taken, last[..., t : t + 1], place)), -1)
        # Among the others, the row's own pair has no place.
        others = others + (are_enough & (others >= own))
        return self._pairs.visited(users, torch.cat((own, others), -1))

    def _draw(self, p: Tensor) -> Tensor:
        """A place along the last axis with these probabilities, `[replicas, rows]`."""
        totals = p.double().cumsum(-1)
        fractions = self._stream.fractions(p.shape[1])[..., None] * totals[..., -1:]
        return (totals <= fractions).sum(-1).clamp_max(p.shape[-1] - 1)

    def judge(self, rows: ScoredRows) -> JudgedRows:
        return JudgedRows(self._loss(rows.positive, rows.negative), torch.ones_like(rows.batch.live))

    def keep(self, replicas: Tensor) -> None:
        self._pairs.keep(replicas)
        self._stream.keep(replicas)

    def state(self) -> State:
        return self._stream.state()

    def load_state(self, state: State) -> None:
        self._stream.load_state(state)


COMPONENT = PersonalLossDraw
