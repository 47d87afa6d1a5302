"""Uniform negatives: one million draws against numpy with rejection by a binary search."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._pairs import Timed, time_pairs
from pspns.data.split import Split
from pspns.rng import ReplicaStream
from pspns.shapes import World

N_DRAWS = 1_000_000


def run(split: Split, world: World) -> Timed:
    rng = np.random.default_rng(0)
    users = np.resize(split.train.users, N_DRAWS)
    rng.shuffle(users)
    keys = split.train.users * split.n_items + split.train.items
    device_users = torch.from_numpy(users)[None]

    def ours() -> NDArray[np.int64]:
        return world.rejected.draw_outside(device_users, 1, ReplicaStream([0], "negatives")).flatten().numpy()

    def reference() -> NDArray[np.int64]:
        items = rng.integers(split.n_items, size=N_DRAWS)
        waiting = np.arange(N_DRAWS)
        while len(waiting):
            wanted = users[waiting] * split.n_items + items[waiting]
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            waiting = waiting[keys[places] == wanted]
            items[waiting] = rng.integers(split.n_items, size=len(waiting))
        return items

    def check(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
        allowed = [not np.isin(users * split.n_items + items, keys).any() for items in (one, two)]
        # Both uniform: tenths of the catalogue come equally often, to five standard errors.
        tenths = [np.bincount(items * 10 // split.n_items, minlength=10) / N_DRAWS for items in (one, two)]
        return all(allowed) and bool(np.abs(tenths[0] - tenths[1]).max() < 5 * np.sqrt(2 * 0.09 / N_DRAWS))

    return time_pairs(
        "1,000,000 uniform negatives",
        "never a known item; equal frequencies",
        "numpy with rejection",
        ours,
        reference,
        check,
    )
