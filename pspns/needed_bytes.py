"""How many bytes a stage of a run needs: of what is not yet made by formula, of what is made by counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pspns.denoising.none import NoDenoising
from pspns.shapes import World
from pspns.spectral import OVERSAMPLING, is_exact
from pspns.training.epochs import ROWS_AT_ONCE, STEPS_AHEAD

# What a step holds for each row at its peak, found by counting live tensors: numbers of users, items and pairs, scores,
# weights and gradients of those. What a sampler holds comes on top.
NUMBERS_A_ROW = 10
# Of a step that follows the gradient of vectors, likewise.
VECTORS_A_ROW = 12
# What Adam on the CPU notes down of each row of a table: its number, its steps, when it was last in a batch.
NOTES_A_ROW = 3


def training_bytes(world: World, size: int, n_replicas: int, batch_size: int) -> dict[str, int]:
    """What the loop holds at once of vectors of this size."""
    n_rows = (world.n_users + world.n_items) * n_replicas
    table = 4 * n_rows * size
    n_pairs, n_visits = len(world.pairs), world.pairs.n_visits
    n_batches = -(-n_visits // batch_size)
    return {
        "embeddings": table,
        "gradients": table,
        "Adam": 2 * table + (8 * NOTES_A_ROW * n_rows if world.device.type == "cpu" else 0),
        "the best state": table,
        # User, item, weight and running total of every pair; each replica's order, in which an epoch's batches and
        # those just ahead lie; and the columns of numbers that one order is made of.
        "the order of epochs": 28 * n_pairs
        + 8 * n_replicas * batch_size * (n_batches + STEPS_AHEAD + 1)
        + (2 if world.device.type == "cpu" else 4) * 8 * n_visits,
        "a batch": 8 * n_replicas * batch_size * NUMBERS_A_ROW,
    }


@dataclass(frozen=True)
class StepSizes:
    """What the bytes of a sampler or a denoiser depend on, beside the world and its settings."""

    n_replicas: int
    batch_size: int
    embedding_size: int
    n_layers: int  # through which messages pass

    @property
    def n_rows(self) -> int:
        """Of a batch, for each replica."""
        return -(-self.batch_size // ROWS_AT_ONCE) * ROWS_AT_ONCE

    def of_rows(self, n_bytes: float = 0, *, vectors: float = 0) -> int:
        """So much for each row of a batch."""
        return int(self.n_replicas * self.n_rows * (n_bytes + 4 * self.embedding_size * vectors))

    def of_nodes(self, n_nodes: int, n_bytes: float = 0, *, vectors: float = 0) -> int:
        """So much for each of these users or items and each replica."""
        return int(self.n_replicas * n_nodes * (n_bytes + 4 * self.embedding_size * vectors))


def sampler_bytes(part: Any, world: World, sizes: StepSizes) -> int:
    """What a part of negatives/ holds at most, in a step or between two; one that does not say needs nothing."""
    return int(part.needed_bytes(world, sizes)) if hasattr(part, "needed_bytes") else 0


def denoiser_bytes(part: Any, world: World, sizes: StepSizes) -> int:
    """What a part of denoising/ holds at most, in a step or between two, and what is noted down of every pair."""
    if isinstance(part, NoDenoising):
        return 0
    own = int(part.needed_bytes(world, sizes)) if hasattr(part, "needed_bytes") else 0
    return own + _kept_bytes(len(world.pairs), sizes.n_replicas, world.device)


def _kept_bytes(n_pairs: int, n_replicas: int, device: torch.device) -> int:
    """Of each replica's pairs, how often they were offered and how much of them was kept; after an evaluation the host
    has their weights, which it works out for one replica after the other."""
    sums = 8 * n_pairs * n_replicas
    return sums + (8 * n_replicas + 40) * n_pairs if device.type == "cpu" else sums


def gradient_bytes(world: World, sizes: StepSizes, *, by_layers: bool = False) -> int:
    """What a step holds in addition that follows the gradient through vectors: of two gathers from the tables, and of
    each layer, beside the layers themselves."""
    tables = 2 + (2 * sizes.n_layers if by_layers else 0)
    return sizes.of_nodes(world.n_users + world.n_items, vectors=tables)


def message_bytes(table: int, layers: int, device: torch.device) -> int:
    """What passing messages needs beside the embeddings, whose bytes are `table`."""
    if device.type == "cpu":  # the result and its gradient; with several layers the sum so far and the next one
        return (2 if layers == 1 else 4) * table
    return (3 + layers) * table  # result, gradient, mean; all layers


def svd_bytes(n_users: int, n_items: int, n_pairs: int, rank: int) -> int:
    """What `truncated_svd` holds at its peak, found by counting live tensors."""
    smaller = min(n_users, n_items)
    if is_exact((n_users, n_items)):
        # Gram matrix, eigenvectors, the same reversed, LAPACK's workspace of two such; then the vectors of both sides.
        return max(5 * 8 * smaller**2, 8 * smaller**2 + 20 * (n_users + n_items) * rank) + 3 * 12 * n_pairs
    width = min(rank + OVERSAMPLING, smaller)
    # Users before and after they are made orthonormal; items once in float32, twice in float64; the matrix both ways.
    return 4 * width * (2 * n_users + 5 * n_items) + 2 * 12 * n_pairs


def held_bytes(device: torch.device, *things: Any) -> int:
    """Bytes on the device of all tensors and arrays that can be reached from `things`; shared memory counts once."""
    sizes: dict[int, int] = {}  # address → bytes
    seen: set[int] = set()
    reached = list(things)  # grows; and keeps alive what it holds, so that no id is given twice
    for thing in reached:
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        match thing:
            case Tensor() if thing.layout is torch.sparse_csr:
                reached += [thing.crow_indices(), thing.col_indices(), thing.values()]
            case Tensor():
                if thing.device.type == device.type:
                    storage = thing.untyped_storage()
                    sizes[storage.data_ptr()] = storage.nbytes()
            case np.ndarray():
                if device.type == "cpu":
                    whole = thing if not isinstance(thing.base, np.ndarray) else thing.base
                    sizes[whole.ctypes.data] = whole.nbytes
            case dict():
                reached += thing.values()
            case list() | tuple():
                reached += thing
            case _:
                reached += vars(thing).values() if hasattr(thing, "__dict__") else ()
    return sum(sizes.values())
