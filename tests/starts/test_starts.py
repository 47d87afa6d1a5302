import math

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.components import find_part, part_names
from pspns.errors import SettingsError
from pspns.starts.normal import NormalStart
from pspns.starts.xavier import XavierStart


@pytest.mark.parametrize("size", [1, 8, 64])  # the toy world has 40 users and 30 items
@pytest.mark.parametrize("name", part_names("starts"))
def test_every_start_gives_finite_reproducible_tables(name, size):
    start = find_part("starts", name)()
    users, items = start.embeddings(toy_world(), size, np.random.default_rng(0))
    assert users.shape == (40, size)
    assert items.shape == (30, size)
    assert users.dtype == items.dtype == np.float32
    for table in (users, items):
        assert np.isfinite(table).all()
        assert table.std() > 0
    # A column that is 0 on both sides has no gradient and never learns.
    assert (np.abs(users).max(0) + np.abs(items).max(0)).min() > 0
    again = start.embeddings(toy_world(), size, np.random.default_rng(0))
    assert np.array_equal(users, again[0])
    assert np.array_equal(items, again[1])


@pytest.mark.parametrize("name", part_names("starts"))
def test_seeds_start_apart_unless_the_data_say_where_to_start(name):
    start = find_part("starts", name)()
    one, two = (start.embeddings(toy_world(), 8, np.random.default_rng(seed))[0] for seed in (0, 1))
    assert np.array_equal(one, two) == (name == "spectral")


def test_xavier_has_the_spread_of_torch():
    world = toy_world(n_users=2000, n_items=500, n_pairs=3000)
    users, items = XavierStart().embeddings(world, 64, np.random.default_rng(0))
    for table in (users, items):
        reference = torch.nn.init.xavier_uniform_(torch.empty(table.shape))
        bound = math.sqrt(6 / sum(table.shape))
        assert bound * 0.999 < np.abs(table).max() <= bound
        assert table.std() == pytest.approx(reference.std().item(), rel=0.02)


def test_normal_has_the_given_spread():
    world = toy_world(n_users=2000, n_items=500, n_pairs=3000)
    users, _ = NormalStart(spread=0.3).embeddings(world, 64, np.random.default_rng(0))
    assert users.std() == pytest.approx(0.3, rel=0.02)
    assert users.mean() == pytest.approx(0, abs=0.01)
    with pytest.raises(SettingsError, match=r"spread must be above 0, got 0; raise \[start\] spread"):
        NormalStart(spread=0.0)
