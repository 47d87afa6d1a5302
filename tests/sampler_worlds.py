"""Samplers at work on small random worlds whose tables are dense, so that slow rules are easily written beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from pspns.data.split import Pairs
from pspns.item_sets import ItemSets, RejectedItems
from pspns.memory import MemoryBudget
from pspns.rng import ReplicaStream
from pspns.shapes import Embeddings, ModelView, Negatives, PositiveBatch, SharedWorld

N_USERS, N_ITEMS, SIZE = 10, 14, 5
SEEDS = (3, 0, 8)
OWN_SETS = (0, 1, 0)  # what each replica rejects: train alone, or train and more

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def random_owned(seed: int = 0) -> Bools:
    """`[2, users, items]`: train, and more. Everybody has an item in train, and leaves at least three out of both."""
    owned = np.random.default_rng(seed).random((2, N_USERS, N_ITEMS)) < 0.4
    for user in range(N_USERS):
        owned[:, user, [user, (user + 1) % N_ITEMS, (user + 2) % N_ITEMS, (user + 3) % N_ITEMS]] = False
        owned[:, user, (user + 4) % N_ITEMS] = True
    owned[1] |= owned[0]
    return owned


def random_view(
    n_users: int, n_items: int, n_replicas: int, *, n_layers: int = 0, size: int = SIZE, seed: int = 0
) -> ModelView:
    """Layers that differ, all of them leaves of the gradient."""
    generator = torch.Generator().manual_seed(seed)
    layers = [
        Embeddings(
            *(torch.randn(n, n_replicas, size, generator=generator, requires_grad=True) for n in (n_users, n_items))
        )
        for _ in range(n_layers + 1)
    ]
    return view_of(layers)


def view_of(layers: Sequence[Embeddings]) -> ModelView:
    if len(layers) == 1:
        return ModelView(base=layers[0], final=layers[0], layers=layers)
    users, items = (torch.stack([getattr(layer, side) for layer in layers]).mean(0) for side in ("users", "items"))
    return ModelView(base=layers[0], final=Embeddings(users, items), layers=layers)


def view_with_scores(scores: Any) -> ModelView:
    """Whose scores are these, `[users, items]` or `[replicas, users, items]`: each user has a unit vector."""
    table = torch.as_tensor(np.asarray(scores), dtype=torch.float32)
    table = table if table.dim() == 3 else table[None]
    n_replicas, n_users, _ = table.shape
    users = torch.eye(n_users)[:, None].expand(-1, n_replicas, -1).contiguous()
    return view_of([Embeddings(users, table.permute(2, 0, 1).contiguous())])


def batch_of(users: Any, items: Any, *, epochs: Any = 0, live: Any = 1.0) -> PositiveBatch:
    """From `[replicas, rows]` of users and items."""
    users, items = torch.as_tensor(users), torch.as_tensor(items)
    live = torch.as_tensor(live).float().expand(users.shape).clone()
    epochs = torch.as_tensor(epochs).expand(len(users))
    return PositiveBatch(users, items, torch.zeros_like(users), torch.ones(users.shape), live, epochs)


class SmallWorld:
    """A sampler's part at work, a model, and all that is known about them."""

    def __init__(
        self,
        part: Any,
        *,
        owned: Bools | None = None,
        own_sets: Sequence[int] = OWN_SETS,
        seeds: Sequence[int] = SEEDS,
        view: ModelView | None = None,
        n_layers: int = 0,
        memory: MemoryBudget | None = None,
    ):
        self.owned = random_owned() if owned is None else owned  # [sets, users, items], train first
        _, self.n_users, self.n_items = self.owned.shape
        self.own_sets, self.seeds = own_sets, seeds
        self.view = view or random_view(self.n_users, self.n_items, len(seeds), n_layers=n_layers)
        pairs = [Pairs(*np.nonzero(table)) for table in self.owned]
        sets = [ItemSets(self.n_users, self.n_items, own) for own in pairs]
        self.train = pairs[0]
        self.world = SharedWorld(
            self.n_users,
            self.n_items,
            self.train,
            0,
            memory or MemoryBudget(torch.device("cpu")),
            rejected=RejectedItems([sets[own] for own in own_sets]),
            embedding_size=self.view.final.users.shape[-1],
        )
        self.sampler = part.start(self.world, seeds)

    @property
    def free(self) -> Bools:
        """`[replicas, users, items]` what may be a negative."""
        return ~self.owned[list(self.own_sets)]

    @property
    def scores(self) -> Floats:
        """`[replicas, users, items]`."""
        return scores_of(self.view.final)

    def batch(self, number: int = 0, n_rows: int = 64, epochs: Any = 0) -> PositiveBatch:
        """Random pairs of train."""
        places = np.random.default_rng([9, number]).integers(len(self.train), size=(len(self.seeds), n_rows))
        return batch_of(self.train.users[places], self.train.items[places], epochs=epochs)

    def everybody(self, n_rows: int, epochs: Any = 0) -> PositiveBatch:
        """So many rows of each user, all with the same positive."""
        users = np.repeat(np.arange(self.n_users), n_rows)
        firsts = self.owned[0].argmax(-1)
        return batch_of(*(np.tile(rows, (len(self.seeds), 1)) for rows in (users, firsts[users])), epochs=epochs)

    def sample(self, batch: PositiveBatch) -> Negatives:
        return self.sampler.sample(batch, self.view)

    def items(self, batch: PositiveBatch) -> NDArray[np.int64]:
        found = self.sample(batch).items
        assert found is not None
        return found.numpy()

    def counts(self, batch: PositiveBatch) -> NDArray[np.int64]:
        """How often each item is drawn for each user, `[replicas, users, items]`."""
        return count(batch.users.numpy(), self.items(batch), self.n_users, self.n_items)

    def pool(self, batch: PositiveBatch) -> NDArray[np.int64]:
        """The candidates that the next `sample` will draw for this batch, `[replicas, rows, candidates]`."""
        state = self.sampler.state()
        pool = self.sampler._pool(batch)
        self.sampler.load_state(state)
        return pool.numpy()

    def stream(self, calls: int = 0) -> ReplicaStream:
        """The numbers a sampler draws, after so many calls."""
        stream = ReplicaStream(self.seeds, "negatives")
        stream.calls = calls
        return stream


def scores_of(embeddings: Embeddings) -> Floats:
    """`[replicas, users, items]`."""
    users, items = (table.detach().double().numpy() for table in (embeddings.users, embeddings.items))
    return np.einsum("urd,ird->rui", users, items)


def count(users: NDArray[np.int64], items: NDArray[np.int64], n_users: int, n_items: int) -> NDArray[np.int64]:
    """`[replicas, rows]` pairs → `[replicas, users, items]`."""
    table = np.zeros((len(users), n_users, n_items), np.int64)
    np.add.at(table, (np.arange(len(users))[:, None], users, items), 1)
    return table


def in_proportion(weights: Floats, free: Bools) -> Floats:
    """The chance of each item, along the last axis: in proportion to weights among the free ones."""
    weights = np.where(free, weights, 0.0)
    return weights / weights.sum(-1, keepdims=True)


def p_value(counts: NDArray[np.int64], chances: Floats) -> float:
    """Of χ², over all rows together, if each row of counts was drawn with its row of chances."""
    counts, chances = counts.reshape(-1, counts.shape[-1]), chances.reshape(-1, chances.shape[-1])
    is_possible = chances > 0
    assert (counts[~is_possible] == 0).all(), "drawn what has no chance"
    expected = counts.sum(-1, keepdims=True) * chances
    assert expected[is_possible].min() > 5, "too few draws for χ²"
    statistic = ((counts - expected)[is_possible] ** 2 / expected[is_possible]).sum()
    return float(stats.chi2.sf(statistic, is_possible.sum() - len(counts)))


def each_row(batch: PositiveBatch) -> list[tuple[int, int, int, int]]:
    """(replica, row, user, positive item) of all rows."""
    n_replicas, n_rows = batch.users.shape
    users, items = batch.users.tolist(), batch.items.tolist()
    return [(r, row, users[r][row], items[r][row]) for r in range(n_replicas) for row in range(n_rows)]
