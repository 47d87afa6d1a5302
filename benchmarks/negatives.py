"""Uniform negatives: one million draws against numpy with rejection, by a binary search and by a table of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._pairs import Timed, time_pairs
from pspns.data.split import Split
from pspns.rng import ReplicaStream
from pspns.shapes import World

Ints = NDArray[np.int64]
WANTED_MILLIONS = 25  # draws a second


def run(split: Split, world: World, n_draws: int = 1_000_000) -> list[Timed]:
    rng = np.random.default_rng(0)
    users = rng.permutation(np.resize(split.train.users, n_draws))
    keys = split.train.users * split.n_items + split.train.items
    is_owned = np.zeros((split.n_users, split.n_items), dtype=np.bool_)
    is_owned[split.train.users, split.train.items] = True
    device_users, stream = torch.from_numpy(users)[None], ReplicaStream([0], "negatives")

    def ours() -> Ints:
        return world.rejected.draw_outside(device_users, 1, stream).flatten().numpy()

    def by_search(users: Ints, items: Ints) -> NDArray[np.bool_]:
        wanted = users * split.n_items + items
        return keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted

    def by_table(users: Ints, items: Ints) -> NDArray[np.bool_]:
        return is_owned[users, items]

    def rejecting(is_known: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Callable[[], Ints]:
        def draw() -> Ints:
            items = rng.integers(split.n_items, size=n_draws)
            waiting = np.arange(n_draws)
            while len(waiting):
                waiting = waiting[is_known(users[waiting], items[waiting])]
                items[waiting] = rng.integers(split.n_items, size=len(waiting))
            return items

        return draw

    def check(one: Ints, two: Ints) -> bool:
        allowed = not is_owned[users, one].any() and not is_owned[users, two].any()
        # Both uniform: tenths of the catalogue come equally often, to five standard errors.
        tenths = [np.bincount(items * 10 // split.n_items, minlength=10) / n_draws for items in (one, two)]
        return allowed and bool(np.abs(tenths[0] - tenths[1]).max() < 5 * np.sqrt(2 * 0.09 / n_draws))

    found = []
    for reference, is_known in (
        ("numpy, rejection by a search", by_search),
        ("numpy, rejection by a users × items table", by_table),
    ):
        timed = time_pairs(
            f"{n_draws:,} uniform negatives", "never a known item; equal frequencies", reference, ours,
            rejecting(is_known), check, pairs=15,
        )  # fmt: skip
        millions = n_draws / timed.ours_seconds / 1e6
        verdict = "met" if millions >= WANTED_MILLIONS else "missed"
        found.append(replace(timed, note=f"{millions:.0f} million a second (at least {WANTED_MILLIONS}: {verdict})"))
    return found
