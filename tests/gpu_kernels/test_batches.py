"""Batches looked up by one kernel on the GPU are those of the plain form.

With little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/gpu_kernels/test_batches.py`
"""

import numpy as np
import pytest
import torch
from toy import make_world, toy_world

from pspns.shapes import PositivePairs
from pspns.training.epochs import Epochs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make_worlds(has_copies: bool):
    for world in (toy_world(0), toy_world(1, n_pairs=200)):
        rng, n = np.random.default_rng(0), len(world.train)
        copies = rng.integers(1, 5, n) if has_copies else np.ones(n)
        flags = np.ones(n, dtype=bool)
        pairs = PositivePairs(
            world.train.users, world.train.items, copies.astype(np.uint8), rng.random(n, np.float32), flags, flags
        )
        weights = rng.random(world.n_users, np.float32)
        yield make_world(world.train, world.n_users, world.n_items, pairs=pairs, user_weights=weights)


@pytest.mark.parametrize("has_copies", [False, True])
def test_equals_the_plain_form(has_copies):
    from pspns.gpu_kernels.batches import look_up

    one, two = make_worlds(has_copies)
    epochs = Epochs([one, two, one], 100, [0, 1, 2])
    for _ in range(12):  # through the last batch of an epoch, part of which is dead
        plain = epochs.next_batch()
        parts = (
            epochs._visits,
            epochs._first_visits,
            epochs._pairs_before,
            epochs._users,
            epochs._items,
            epochs._weights,
        )
        up_to = epochs._visits_up_to.cuda() if has_copies else None
        found = look_up(*(part.cuda() for part in parts), up_to)
        for name, column in zip(("users", "items", "pair_ids", "weights", "live"), found, strict=True):
            assert torch.equal(column.cpu(), getattr(plain, name)), name
    assert (plain.live == 0).any()
