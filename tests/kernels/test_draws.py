"""Compiled draws are those of torch, number by number."""

import numpy as np
import pytest
import torch

from pspns.data.split import Pairs
from pspns.item_sets import ItemSets
from pspns.rng import ReplicaStream

N_ITEMS = 700


def sets_of(sizes):
    """User u owns `sizes[u]` random items."""
    rng = np.random.default_rng(3)
    owned = [np.sort(rng.permutation(N_ITEMS)[:size]) for size in sizes]
    return ItemSets(len(sizes), N_ITEMS, Pairs(np.repeat(np.arange(len(sizes)), sizes), np.concatenate(owned)))


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("rows", [1, 63, 64, 1000])
def test_equal_those_of_torch(rows, n):
    sets = sets_of([0, 1, 2, 3, 64, 65, 350, N_ITEMS - 2, N_ITEMS - 1])
    users = torch.from_numpy(np.random.default_rng(rows).integers(sets.n_users, size=(3, rows)))
    one, two = (ReplicaStream([7, 8, 9], "negatives") for _ in range(2))
    for _ in range(2):  # the second call draws other numbers
        found, expected = sets.draw_outside(users, n, one), sets._draw_by_torch(users, n, two)
        assert found.shape == (3, rows, n)
        assert torch.equal(found, expected)
    assert not sets.contains(users[..., None].expand_as(found), found).any()
    assert one.calls == 2


def test_who_owns_all_but_one_gets_that_one():
    owned = np.delete(np.arange(N_ITEMS), 123)
    sets = ItemSets(1, N_ITEMS, Pairs(np.zeros(len(owned), dtype=np.int64), owned))
    drawn = sets.draw_outside(torch.zeros(1, 50, dtype=torch.int64), 2, ReplicaStream([0], "negatives"))
    assert (drawn == 123).all()


def test_an_order_is_that_of_the_plain_bits():
    one, two = (ReplicaStream([7, 2**40], "shuffle") for _ in range(2))
    one.calls = two.calls = 3
    for _ in range(2):
        assert torch.equal(one.order(10_000), two.bits(10_000).argsort(-1))
    assert one.calls == 5
