import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import make_world, toy_world

from pspns.data.split import Pairs
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.observed import ObservedPositives
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
            assert int(batch.live.sum(-1).max()) <= batch_size
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


def live_rows(batch, replica: int) -> list[list]:
    """What one replica is given."""
    is_live = batch.live[replica] == 1
    return [values[replica][is_live].tolist() for values in (batch.users, batch.items, batch.pair_ids, batch.weights)]


WORLDS = (copied_world(), toy_world(0, n_users=3, n_items=4, n_pairs=3), toy_world(2, n_pairs=320))
SEEDS = (5, 6, 5, 8)
PLACES = (0, 2, 1, 0)  # the first and the last share their pairs


def together() -> Epochs:
    return Epochs([WORLDS[place] for place in PLACES], 4, SEEDS)


def test_worlds_of_different_lengths_have_epochs_of_their_own():
    epochs = together()
    n_visits = [WORLDS[place].pairs.n_visits for place in PLACES]
    visits = [Counter() for _ in PLACES]
    for step in range(1, 200):
        batch = epochs.next_batch()
        assert epochs.epochs == [-(-step // -(-n // 4)) for n in n_visits]
        for replica, place in enumerate(PLACES):
            is_live = batch.live[replica] == 1
            visits[replica].update(batch.pair_ids[replica][is_live].tolist())
            # Every pair as often as its copies say at the end of an epoch, never more before.
            copies, epoch = WORLDS[place].pairs.copies.tolist(), epochs.epochs[replica]
            assert all(n <= epoch * copies[pair] for pair, n in visits[replica].items())
            if step % -(-n_visits[replica] // 4) == 0:
                assert visits[replica] == Counter({pair: epoch * n for pair, n in enumerate(copies)})
                assert int(is_live.sum()) == (n_visits[replica] - 1) % 4 + 1
            else:
                assert int(is_live.sum()) == 4
    assert epochs.epochs == [67, 3, 100, 67]


def test_every_replica_is_given_what_it_would_be_given_alone():
    company, alone = together(), [Epochs([WORLDS[p]], 4, [s]) for p, s in zip(PLACES, SEEDS, strict=True)]
    for _ in range(100):
        batch = company.next_batch()
        for replica, one in enumerate(alone):
            assert live_rows(batch, replica) == live_rows(one.next_batch(), 0)


def test_a_dead_row_is_still_one_of_the_replicas_own_pairs():
    # Samplers see it as any other row: a history per pair must find its place, and a user their own items.
    epochs, n_dead = together(), Counter()
    for _ in range(100):
        batch = epochs.next_batch()
        for replica, place in enumerate(PLACES):
            pairs, ids = WORLDS[place].pairs, batch.pair_ids[replica].numpy()
            assert (ids >= 0).all()
            assert batch.users[replica].tolist() == pairs.users[ids].tolist()
            assert batch.items[replica].tolist() == pairs.items[ids].tolist()
            n_dead[replica] += int((batch.live[replica] == 0).sum())
    assert len(+n_dead) == len(PLACES)


@pytest.mark.parametrize("step", [0, 1, 31, 32, 33, 86, 150])
def test_seek_goes_where_walking_would_have_led(step):
    walked, sought = together(), together()
    for _ in range(step):
        walked.next_batch()
    for _ in range(90):
        sought.next_batch()  # so that one goes back as well as forth
    sought.seek(step)
    assert sought.epochs == walked.epochs
    for _ in range(40):
        one, two = walked.next_batch(), sought.next_batch()
        assert all(live_rows(one, replica) == live_rows(two, replica) for replica in range(len(PLACES)))
    assert sought.step == walked.step == step + 40


def test_after_replicas_have_left_the_others_go_on_and_can_be_sought():
    walked, sought, alone = together(), together(), Epochs([WORLDS[2]], 4, [6])
    for _ in range(50):
        walked.next_batch(), alone.next_batch()
    walked.keep(torch.tensor([0, 1, 3]))
    for _ in range(7):
        walked.next_batch(), alone.next_batch()
    walked.keep(torch.tensor([1, 2]))
    sought.keep(torch.tensor([1, 3]))
    sought.seek(57)
    for _ in range(100):
        one, two, three = walked.next_batch(), sought.next_batch(), alone.next_batch()
        assert live_rows(one, 0) == live_rows(two, 0) == live_rows(three, 0)
        assert live_rows(one, 1) == live_rows(two, 1)
    assert walked.n_replicas == 2


class Counted:
    """Epochs, and how many rows each replica has been given so far."""

    def __init__(self):
        self.epochs, self._n_given = together(), [0] * len(PLACES)
        self._n_visits = [WORLDS[place].pairs.n_visits for place in PLACES]

    def advance(self) -> list[int]:
        """To the next batch; what it says of epochs is what counting rows says."""
        n_ended, rests = zip(*(divmod(n, an_epoch) for n, an_epoch in self._counts()), strict=True)
        just_now = [replica for replica, rest in enumerate(rests) if rest == 0 and n_ended[replica] > 0]
        assert self.epochs.advance() == just_now
        batch = self.epochs.batch()
        assert batch.epochs.tolist() == list(n_ended)
        live = batch.live.sum(-1).int().tolist()
        self._n_given = [n + more for n, more in zip(self._n_given, live, strict=True)]
        return just_now

    def keep(self, going_on: list[int]) -> None:
        self.epochs.keep(torch.tensor(going_on))
        self._n_given, self._n_visits = (
            [values[place] for place in going_on] for values in (self._n_given, self._n_visits)
        )

    def _counts(self):
        return zip(self._n_given, self._n_visits, strict=True)


def test_tells_whose_epoch_has_just_ended_and_how_many_have():
    counted = Counted()
    told = [counted.advance() for _ in range(200)]
    assert told[0] == [], "nothing has ended before the first batch"
    assert {tuple(places) for places in told[1:]} > {(), (2,), (0, 3), (0, 2, 3)}, "epochs did not end apart"
    assert any(1 in places for places in told)


def test_and_so_it_does_after_replicas_have_left():
    counted = Counted()
    for _ in range(50):
        counted.advance()
    counted.keep([0, 1, 3])
    told = [counted.advance() for _ in range(7)]
    counted.keep([1, 2])
    told += [counted.advance() for _ in range(100)]
    assert {tuple(places) for places in told} >= {(0, 2), (0,), (1,)}


@pytest.mark.parametrize("step", [0, 1, 2, 3, 6, 31, 32, 33, 86, 87, 150])
def test_and_so_it_does_from_wherever_it_is_sought(step):
    """Also right at the end of an epoch: whoever goes on from there has not been told yet."""
    walked, sought = together(), together()
    for _ in range(step):
        walked.advance()
    for _ in range(90):
        sought.advance()
    sought.seek(step)
    for _ in range(40):
        assert walked.advance() == sought.advance()
        assert torch.equal(walked.batch().epochs, sought.batch().epochs)


def rows_of_epochs(epochs: Epochs, n_steps: int) -> list[list[int]]:
    """Pairs of the live rows of the second replica, batch by batch."""
    batches = [epochs.next_batch() for _ in range(n_steps)]
    return [batch.pair_ids[1][batch.live[1] == 1].tolist() for batch in batches]


@pytest.mark.parametrize("batch_size", [1, 3, 4, 11, 100])
def test_copies_that_come_together_are_neighbours_in_a_random_order_of_pairs(batch_size):
    # Another world comes before, so that numbers of visits and pairs do not begin at 0.
    worlds, n_batches = [WORLDS[2], copied_world()], -(-11 // batch_size)
    epochs, orders = Epochs(worlds, batch_size, [7, 1], copies_together=True), []
    for _ in range(30):
        batches = rows_of_epochs(epochs, n_batches)
        assert [len(batch) for batch in batches[:-1]] == [batch_size] * (n_batches - 1)
        runs = [(pair, len(list(run))) for pair, run in itertools.groupby(itertools.chain(*batches))]
        assert sorted(runs) == [(0, 1), (1, 3), (2, 2), (3, 1), (4, 4)]
        orders.append(tuple(pair for pair, _ in runs))
    assert len(set(orders)) > 20
    assert {order[0] for order in orders} == {0, 1, 2, 3, 4}


def test_copies_apart_are_no_neighbours_by_default():
    batches = rows_of_epochs(Epochs([copied_world()] * 2, 11, [0, 1]), 5)
    n_runs = [len(list(itertools.groupby(batch))) for batch in batches]
    assert sum(n_runs) > 5 * 5


def test_where_each_pair_comes_once_together_and_apart_are_the_same():
    found = [Epochs([WORLDS[1], WORLDS[2]], 64, [3, 4], copies_together=together) for together in (False, True)]
    for _ in range(20):
        one, other = (epochs.next_batch() for epochs in found)
        assert torch.equal(one.pair_ids, other.pair_ids)


def test_copies_that_come_together_can_be_sought_and_do_not_mind_who_leaves():
    company, sought, alone = (
        Epochs(worlds, 4, seeds, copies_together=True)
        for worlds, seeds in (([WORLDS[2], WORLDS[0]], [7, 1]), ([WORLDS[2], WORLDS[0]], [7, 1]), ([WORLDS[0]], [1]))
    )
    for _ in range(40):
        company.next_batch(), alone.next_batch()
    company.keep(torch.tensor([1]))
    sought.keep(torch.tensor([1]))
    sought.seek(40)
    for _ in range(40):
        one, two, three = company.next_batch(), sought.next_batch(), alone.next_batch()
        assert live_rows(one, 0) == live_rows(two, 0) == live_rows(three, 0)


def test_copies_that_come_together_each_have_a_negative_of_their_own():
    train = Pairs(np.zeros(1, np.int64), np.zeros(1, np.int64))
    pairs = ObservedPositives().build(make_world(train, 1, 1000))
    world = make_world(train, 1, 1000, pairs=replace(pairs, copies=np.array([50], np.uint8)))
    batch = Epochs([world], 50, [0], copies_together=True).next_batch()
    drawn = UniformNegatives().start(world, [0]).sample(batch, None).items
    assert batch.live.sum() == 50
    assert len(set(drawn[0, :50].tolist())) > 40
