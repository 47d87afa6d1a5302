"""The compiled lookup of a batch is torch's, column by column."""

import dataclasses

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.training.epochs import Epochs


@pytest.mark.parametrize("has_copies", [False, True])
def test_equals_the_plain_form(has_copies):
    world = toy_world()
    rng = np.random.default_rng(0)
    n_pairs = len(world.pairs)
    copies = rng.integers(1, 4, n_pairs) if has_copies else np.ones(n_pairs)
    weights = rng.random(n_pairs).astype(np.float32)
    other = dataclasses.replace(
        world, pairs=dataclasses.replace(world.pairs, copies=copies.astype(np.uint8), pair_weights=weights)
    )
    epochs = Epochs([world, other, other], 50, [0, 1, 2])
    n_dead = 0
    for _ in range(3 * n_pairs // 50):  # beyond the end of an epoch, where rows are dead
        epochs.advance()
        found, expected = epochs.batch(), epochs._batch_by_torch()
        for name, column in vars(expected).items():
            assert getattr(found, name).dtype == column.dtype
            assert torch.equal(getattr(found, name), column), name
        n_dead += int((found.live == 0).sum())
    assert n_dead > 0
