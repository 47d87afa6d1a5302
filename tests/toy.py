"""Small worlds that several tests stand on."""

from __future__ import annotations

import numpy as np
import torch

from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Pairs, Part
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.positives.observed import ObservedPositives
from pspns.shapes import Ground, PositivePairs, World

CPU = torch.device("cpu")


def random_pairs(n_users: int, n_items: int, n_pairs: int, rng: np.random.Generator) -> Pairs:
    """Distinct pairs in which every user and every item occurs."""
    chosen = rng.choice(n_users * n_items, size=n_pairs, replace=False)
    covering = np.concatenate(
        [
            np.arange(n_users) * n_items + rng.integers(n_items, size=n_users),
            rng.integers(n_users, size=n_items) * n_items + np.arange(n_items),
        ]
    )
    keys = np.unique(np.concatenate([chosen, covering]))
    return Pairs(keys // n_items, keys % n_items)


def make_world(
    train: Pairs,
    n_users: int,
    n_items: int,
    *,
    pairs: PositivePairs | None = None,
    user_weights: np.ndarray | None = None,
) -> World:
    ground = Ground(n_users, n_items, train, 0, MemoryBudget(CPU))
    pairs = pairs or ObservedPositives().build(ground)
    return World(
        **vars(ground),
        pairs=pairs,
        n_dropped=0,
        user_weights=np.ones(n_users, np.float32) if user_weights is None else user_weights,
        rejected=ItemSets(n_users, n_items, train, pairs.as_pairs()),
    )


def toy_world(seed: int = 0, n_users: int = 40, n_items: int = 30, n_pairs: int = 300) -> World:
    train = random_pairs(n_users, n_items, n_pairs, np.random.default_rng(seed))
    return make_world(train, n_users, n_items)


def given_split(
    n_users: int, n_items: int, n_pairs: int, seed: int = 0, *, held_out: np.ndarray | None = None
) -> GivenSplit:
    """A fixed train part; `held_out` `[n, 3]` rows of (user, item, part), random ones if not given."""
    rng = np.random.default_rng(seed)
    train = random_pairs(n_users, n_items, n_pairs, rng)
    taken = set(zip(train.users.tolist(), train.items.tolist(), strict=True))
    if held_out is None:
        free = [(u, i) for u in range(n_users) for i in range(n_items) if (u, i) not in taken]
        chosen = rng.permutation(len(free))[: n_pairs // 4]
        held_out = np.array([(*free[c], 1 + n % 2) for n, c in enumerate(chosen)])
    users = np.concatenate([train.users, held_out[:, 0]])
    items = np.concatenate([train.items, held_out[:, 1]])
    parts = np.concatenate([np.full(len(train), Part.TRAIN), held_out[:, 2]]).astype(np.int8)
    interactions = Interactions.from_arrays(users, items)
    assert len(interactions) == len(users), "held-out pairs must be distinct and outside train"
    order = np.lexsort((items, users))
    return GivenSplit(interactions, parts[order], "toy")


def best_by_sorting(scores: np.ndarray, k: int) -> list[list[int]]:
    """The k best columns of each row, ties to the lower one, −1 where nothing but −∞ is left."""
    lists = []
    for row in scores:
        ranked = sorted((-score, item) for item, score in enumerate(row) if score > -np.inf)
        lists.append(([item for _, item in ranked] + [-1] * k)[:k])
    return lists
