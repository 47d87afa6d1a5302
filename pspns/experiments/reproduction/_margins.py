"""Margins and the steps that change them, written plainly: two dense tables, autograd, torch's own optimisers.

Nothing of the engine's training is used here, so that what is measured does not rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.data.interactions import Ints
from pspns.item_sets import ItemSets
from pspns.rng import ReplicaStream, host_stream
from pspns.shapes import PositivePairs

Optimiser = Literal["sgd", "adam"]


@dataclass(frozen=True)
class State:
    """The parameters of matrix factorisation."""

    users: Tensor  # [n_users, size]
    items: Tensor  # [n_items, size]


@dataclass(frozen=True)
class Triples:
    """Rows of a batch, or those whose margins are watched."""

    users: Tensor  # [rows]
    positives: Tensor  # [rows]
    negatives: Tensor  # [rows]

    def __len__(self) -> int:
        return len(self.users)

    def only(self, kept: Tensor) -> Triples:
        return Triples(self.users[kept], self.positives[kept], self.negatives[kept])


@dataclass(frozen=True)
class Weighing:
    """How much a user's rows count, and how strongly vectors are held small."""

    users: Tensor  # [n_users] t_u
    l2: float
    l2_of_users: Tensor | None = None  # [n_users] in place of l2, for the users' vectors
    items_alone: bool = False  # whether t_u is in the gradients of items only, and 1 in those of users


@dataclass(frozen=True)
class Positives:
    """Pairs as an epoch visits them, and what may not be a negative."""

    pairs: PositivePairs
    rejected: ItemSets

    def batches(self, n: int, rows: int, seed: int, stream: str) -> Iterable[Triples]:
        """Independent rows: a visit each, with an item that is not rejected."""
        device = self.rejected.keys.device
        visits = np.repeat(np.arange(len(self.pairs)), self.pairs.copies)
        rng, draws = host_stream(seed, stream), ReplicaStream([seed], stream, device)
        for _ in range(n):
            chosen = visits[rng.integers(len(visits), size=rows)]
            yield with_negatives(self.pairs.users[chosen], self.pairs.items[chosen], self.rejected, draws)

    def mean_weight(self, user_weights: Tensor) -> float:
        """Over the visits of an epoch."""
        weights = user_weights.double().cpu().numpy()[self.pairs.users]
        return float(np.average(weights, weights=self.pairs.copies))


def with_negatives(users: Ints, items: Ints, rejected: ItemSets, draws: ReplicaStream) -> Triples:
    """Each pair with a random item outside the user's set."""
    device = rejected.keys.device
    numbers = torch.from_numpy(users).to(device)
    negatives = rejected.draw_outside(numbers[None], 1, draws)[0, :, 0]
    return Triples(numbers, torch.from_numpy(items).to(device), negatives)


def margins(state: State, triples: Triples) -> Tensor:
    """m = s(u, i) − s(u, j) of each row."""
    users, items = F.embedding(triples.users, state.users), F.embedding(triples.positives, state.items)
    return (users * (items - F.embedding(triples.negatives, state.items))).sum(-1)


def batch_loss(state: State, triples: Triples, weighing: Weighing) -> Tensor:
    """Σ (−t_u ln σ(m) + (λ_u ‖e_u‖² + λ ‖e_i‖² + λ ‖e_j‖²) / 2) / rows."""
    weights = weighing.users[triples.users]
    if weighing.items_alone:
        of_users = F.softplus(-margins(State(state.users, state.items.detach()), triples))
        rows = of_users + weights * F.softplus(-margins(State(state.users.detach(), state.items), triples))
    else:
        rows = weights * F.softplus(-margins(state, triples))
    of_user: float | Tensor = weighing.l2
    if weighing.l2_of_users is not None:
        of_user = weighing.l2_of_users[triples.users]
    squares = of_user * F.embedding(triples.users, state.users).square().sum(-1)
    for items in (triples.positives, triples.negatives):
        squares = squares + weighing.l2 * F.embedding(items, state.items).square().sum(-1)
    return (rows + squares / 2).sum() / len(triples)


def walk(state: State, batches: Iterable[Triples], optimiser: Optimiser, rate: float, weighing: Weighing) -> State:
    """Where one step for each batch leads; an optimiser with a memory starts with none."""
    moved = State(*(table.detach().clone().requires_grad_() for table in (state.users, state.items)))
    makers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    stepper = makers[optimiser]([moved.users, moved.items], lr=rate)
    for batch in batches:
        stepper.zero_grad()
        batch_loss(moved, batch, weighing).backward()  # type: ignore[no-untyped-call]
        stepper.step()
    return State(moved.users.detach(), moved.items.detach())


def mean_change(before: State, after: State, triples: Triples) -> float:
    """Of the margins of these rows."""
    changes = (margins(after, triples) - margins(before, triples)).double()
    return float(changes.mean())


def first_order(state: State, triples: Triples, rate: float, weighing: Weighing) -> float:
    """What propositions 1 and 2 promise of a row's own margin, mean over rows: η t_u (1 − σ(m)) ‖∇m‖² / rows.

    A batch's loss is a mean, so that each row moves its margin by a rows-th of a step of its own.
    """
    users = F.embedding(triples.users, state.users)
    apart = F.embedding(triples.positives, state.items) - F.embedding(triples.negatives, state.items)
    gradients = apart.square().sum(-1) + 2 * users.square().sum(-1)  # by e_u: e_i − e_j; by e_i and e_j: ± e_u
    weights = weighing.users[triples.users]
    promised = weights * torch.sigmoid(-margins(state, triples)) * gradients
    return float(rate * promised.double().mean() / len(triples))


def joined(batches: Sequence[Triples]) -> Triples:
    """All rows, batch after batch."""
    return Triples(*(torch.cat([getattr(one, side.name) for one in batches]) for side in fields(Triples)))


def times(weighing: Weighing, factors: Tensor) -> Weighing:
    """Each user's weight times a factor of their own."""
    return replace(weighing, users=weighing.users * factors)
