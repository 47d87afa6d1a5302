"""Denoisers at work on small worlds: batches and scored rows put together by hand, and whole trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from toy import make_world

from pspns.data.split import Pairs
from pspns.item_sets import RejectedItems
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import DenoisedWorld, Embeddings, Fitted, Negatives, PositiveBatch, ScoredRows, World
from pspns.starts.normal import NormalStart
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

# A size that fills no register of the processor, and one that does.
MODELS = {"mf": MatrixFactorisation(embedding_size=7), "lightgcn": LightGcn(embedding_size=16, layers=2)}


def world_of(owned: Any) -> World:
    """From a table `[users, items]` of who has what in train."""
    owned = np.asarray(owned, bool)
    return make_world(Pairs(*np.nonzero(owned)), *owned.shape)


def planted_world(
    seed: int = 0, *, n_groups: int = 4, n_users: int = 80, n_items: int = 60, noise: float = 0.06
) -> tuple[World, Any]:
    """Users who like one group of items, with some random pairs beside; and which pairs `[pairs]` these are."""
    rng = np.random.default_rng(seed)
    is_own = np.arange(n_users)[:, None] % n_groups == np.arange(n_items) % n_groups
    owned = rng.random(is_own.shape) < np.where(is_own, 0.6, noise)
    owned[np.arange(n_users), np.arange(n_users) % n_groups] = True
    return world_of(owned), ~is_own[np.nonzero(owned)]


def denoised(
    *worlds: World, batch_size: int = 64, loss: str = "bpr", size: int = 5, teacher: Embeddings | None = None
) -> DenoisedWorld:
    """What a denoiser is started on; one world for each replica."""
    ground = worlds[0]
    return DenoisedWorld(
        ground.n_users,
        ground.n_items,
        ground.train,
        ground.data_seed,
        ground.memory,
        rejected=RejectedItems([world.rejected for world in worlds]),
        embedding_size=size,
        worlds=worlds,
        batch_size=batch_size,
        loss=loss,
        teacher=teacher,
    )


def pair_batch(worlds: World | Sequence[World], pair_ids: Any, *, epochs: Any = 0, live: Any = 1.0) -> PositiveBatch:
    """These pairs, `[replicas, rows]`; `worlds` one for each replica, or one for all."""
    ids = torch.as_tensor(pair_ids)
    own = [worlds] * len(ids) if isinstance(worlds, World) else worlds
    columns = [
        (one.pairs.users, one.pairs.items, one.pairs.pair_weights * one.user_weights[one.pairs.users]) for one in own
    ]
    users, items, weights = (
        torch.stack([torch.from_numpy(column)[row] for column, row in zip(of_all, ids, strict=True)])
        for of_all in zip(*columns, strict=True)
    )
    live = torch.as_tensor(live).float().expand(ids.shape).clone()
    return PositiveBatch(users, items, ids, weights, live, torch.as_tensor(epochs).expand(len(ids)))


def rows_scored(
    positive: Any, negative: Any, *, batch: PositiveBatch | None = None, negatives: Any = None, live: Any = 1.0
) -> ScoredRows:
    """Rows with these scores, `[replicas, rows]` or `[rows]`; which pairs they are matters only where it is said."""
    positive, negative = (torch.as_tensor(s, dtype=torch.float32) for s in (positive, negative))
    if positive.dim() == 1:
        positive, negative = positive[None], negative[None]
    if batch is None:
        nothing = torch.zeros(positive.shape, dtype=torch.int64)
        live = torch.as_tensor(live).float().expand(positive.shape).clone()
        batch = PositiveBatch(nothing, nothing, nothing, torch.ones(positive.shape), live, nothing[:, 0])
    items = torch.zeros_like(batch.items) if negatives is None else torch.as_tensor(negatives)
    return ScoredRows(batch, Negatives(items), positive.requires_grad_(), negative.requires_grad_())


def train(
    world: World | Sequence[World],
    denoiser: Any,
    *,
    model: str = "mf",
    loss: str = "bpr",
    steps: int = 24,
    seeds: Sequence[int] = (0, 3),
    negatives: Any = None,
    **settings: Any,
) -> Fitted:
    """A whole training, by default some epochs of the worlds of `toy`; each world has a replica for each seed."""
    worlds = [world] if isinstance(world, World) else world
    settings = {"batch_size": 100, "learning_rate": 0.02, "evaluate_every": 8, **settings}
    members = [Member(one, NormalStart(), 1e-4, seeds, None) for one in worlds]
    training = TrainingSettings(loss=loss, steps=steps, **settings)
    trainer = Trainer(
        members, negatives or UniformNegatives(), training, "recall@20", lambda *_: None, denoiser=denoiser
    )
    return MODELS[model].fit(worlds[0], trainer)


def same_bits(one: Fitted, two: Fitted) -> bool:
    """Whether two trainings came to the same tables."""
    tables = [(one.scorer.tensors()[name], tensor) for name, tensor in two.scorer.tensors().items()]
    return all(torch.equal(*pair) for pair in tables)


def softplus(x: Any) -> Any:
    """In double precision."""
    return np.logaddexp(0.0, np.asarray(x, np.float64))
