from collections import Counter

import numpy as np
import pytest
import torch
from toy import make_world, toy_world

from pspns.data.split import Pairs
from pspns.shapes import PositivePairs
from pspns.training.epochs import Epochs


def copied_world():
    train = Pairs(np.array([0, 0, 1, 2, 2]), np.array([0, 2, 1, 0, 3]))
    pairs = PositivePairs(
        users=train.users,
        items=train.items,
        copies=np.array([1, 3, 2, 1, 4], np.uint8),
        pair_weights=np.array([1, 2, 3, 4, 5], np.float32),
        is_observed=np.ones(5, bool),
        is_global=np.zeros(5, bool),
    )
    return make_world(train, 3, 4, pairs=pairs, user_weights=np.array([1, 10, 100], np.float32))


@pytest.mark.parametrize("batch_size", [1, 3, 4, 11, 100])
def test_an_epoch_visits_each_pair_once_for_each_copy(batch_size):
    world = copied_world()
    epochs = Epochs([world] * 2, batch_size, [0, 1])
    for epoch in (1, 2):
        visits = [Counter(), Counter()]
        while True:
            batch = epochs.next_batch()
            assert epochs.epochs == [epoch, epoch]
            assert batch.users.shape == (2, batch_size)
            for replica in range(2):
                visits[replica].update(batch.pair_ids[replica][batch.live[replica] == 1].tolist())
            if sum(visits[0].values()) == 11:
                break
        assert visits == [Counter({0: 1, 1: 3, 2: 2, 3: 1, 4: 4})] * 2


def test_rows_carry_their_pair_and_its_weight():
    world, batch = copied_world(), Epochs([copied_world()], 11, [5]).next_batch()
    ids = batch.pair_ids[0].numpy()
    assert batch.users[0].tolist() == world.pairs.users[ids].tolist()
    assert batch.items[0].tolist() == world.pairs.items[ids].tolist()
    expected = world.pairs.pair_weights[ids] * np.array([1, 10, 100])[world.pairs.users[ids]]
    assert batch.weights[0].tolist() == expected.tolist()


def test_orders_differ_between_epochs_and_replicas_and_not_between_companies():
    world = toy_world()
    alone, together = Epochs([world], 64, [4]), Epochs([world] * 2, 64, [0, 4])
    first = [alone.next_batch().pair_ids for _ in range(12)]
    other = [together.next_batch().pair_ids for _ in range(12)]
    assert all(torch.equal(a[0], b[1]) for a, b in zip(first, other, strict=True))
    assert not torch.equal(other[0][0], other[0][1])
    steps_an_epoch = -(-len(world.pairs) // 64)
    assert not torch.equal(first[0], first[steps_an_epoch])


def test_a_replica_that_stays_goes_on_where_it_was():
    world = toy_world()
    alone, together = Epochs([world], 64, [4]), Epochs([world] * 3, 64, [0, 4, 7])
    for _ in range(2):
        alone.next_batch(), together.next_batch()
    together.keep(torch.tensor([1]))
    for _ in range(10):
        assert torch.equal(alone.next_batch().pair_ids, together.next_batch().pair_ids)
