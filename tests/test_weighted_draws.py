"""Draws in proportion to weights, against lines laid out item by item."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from sampler_worlds import p_value

from pspns.data.split import Pairs
from pspns.errors import DataError
from pspns.item_sets import ItemSets, RejectedItems
from pspns.rng import ReplicaStream
from pspns.weighted_draws import WeightedDraws

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


class GivenFractions:
    """In place of a stream: `[replicas, rows]` fractions that are known."""

    def __init__(self, fractions):
        self._fractions = torch.as_tensor(fractions, dtype=torch.float64)

    def fractions(self, n):
        assert self._fractions.shape[1] == n
        return self._fractions


def rejected_of(*owned, device="cpu"):
    """One replica for each `[users, items]` table."""
    return RejectedItems([ItemSets(*np.shape(own), Pairs(*np.nonzero(own)), device=device) for own in owned])


def draws_of(*owned, weights, device="cpu"):
    return WeightedDraws(rejected_of(*owned, device=device), len(owned[0]), np.asarray(weights, np.float64))


def item_on_the_line(weights, owned, fraction):
    """Walk along the user's own line, free item after free item, until the fraction of its length is passed."""
    free = [(item, Fraction(weight)) for item, weight in enumerate(weights) if not owned[item]]
    place = Fraction(fraction) * sum(weight for _, weight in free)
    for item, weight in free:
        if place < weight:
            return item
        place -= weight
    raise AssertionError


def test_each_item_gets_its_share_of_all_fractions_exactly():
    # Four fractions for each unit of a line, evenly spread: each item gets four draws for each unit of its weight.
    weights = np.array([3.0, 0.0, 5.0, 8.0, 0.0, 16.0])
    owned = np.array(
        [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1], [1, 0, 1, 1, 0, 0], [1, 0, 1, 0, 1, 1]]
    )
    draws = draws_of(owned, weights=weights)
    for user, own in enumerate(owned):
        left = weights * (1 - own)
        n = int(left.sum()) * 4
        fractions = (np.arange(n) + 0.5) / n
        items = draws.draw(torch.full((1, n), user), GivenFractions(fractions[None]))
        assert np.bincount(items[0], minlength=6).tolist() == (4 * left).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_equals_a_walk_along_each_users_own_line(seed):
    """Several sets, users with nothing, users with all but one, weights of 0 at both ends and in between."""
    rng = np.random.default_rng(seed)
    n_users, n_items, n_rows = 7, 11, 400
    weights = rng.integers(0, 4, n_items) * rng.random(n_items)
    weights[[4, 9]] = 0.5, 0.25
    if seed % 2:
        weights[[0, -1]] = 0
    owned = rng.random((3, n_users, n_items)) < rng.random((3, n_users, 1))
    owned[:, 0], owned[:, 1] = False, True
    owned[:, :, 4] = False
    fractions, users = rng.random((3, n_rows)), rng.integers(n_users, size=(3, n_rows))
    found = draws_of(*owned, weights=weights).draw(torch.from_numpy(users), GivenFractions(fractions))
    expected = [
        [item_on_the_line(weights, owned[r, users[r, row]], fractions[r, row]) for row in range(n_rows)]
        for r in range(3)
    ]
    # A random fraction lies on a border, where rounding decides, once in 10¹² draws or so.
    assert found.tolist() == expected
    assert not owned[np.arange(3)[:, None], users, found].any()


def test_the_ends_of_a_line_are_its_first_and_last_items():
    weights, owned = np.array([0.0, 1.0, 2.0, 0.3, 0.0]), np.array([[0, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
    draws = draws_of(owned, weights=weights)
    ends = GivenFractions([[0.0, 1 - 2.0**-53, 0.0, 1 - 2.0**-53]])
    assert draws.draw(torch.tensor([[0, 0, 1, 1]]), ends).tolist() == [[1, 3, 2, 2]]


def test_chances_are_in_proportion_to_weights():
    # 20,000 draws for each of six users: weights that are off by a tenth would be seen.
    rng = np.random.default_rng(0)
    owned, weights = rng.random((2, 3, 8)) < 0.3, rng.random(8) + 0.1
    users = torch.arange(3).repeat(2, 20_000)
    found = draws_of(*owned, weights=weights).draw(users, ReplicaStream([0, 1], "negatives"))
    counts = np.zeros((2, 3, 8), np.int64)
    np.add.at(counts, (np.arange(2)[:, None], users.numpy(), found.numpy()), 1)
    left = weights * ~owned
    assert p_value(counts, left / left.sum(-1, keepdims=True)) > 1e-4


@pytest.mark.parametrize("heavy", [1e6, 1e12, 1e30, 1e300])
def test_however_much_one_item_weighs_the_others_can_be_drawn(heavy):
    """Weights a hundred orders of magnitude apart: whoever owns the heavy item has the light ones, in proportion."""
    weights, owned = np.array([1.0, heavy, 3.0]), np.array([[0, 0, 0], [0, 1, 0]])
    draws = draws_of(owned, weights=weights)
    fractions = (np.arange(100) + 0.5) / 100
    everything = draws.draw(torch.zeros(1, 100, dtype=torch.int64), GivenFractions(fractions[None]))
    assert (everything == 1).all()
    ends = draws.draw(torch.zeros(1, 2, dtype=torch.int64), GivenFractions([[0.0, 1 - 2.0**-53]]))
    assert ends.tolist() == [[0, 2]]
    light = draws.draw(torch.ones(1, 100, dtype=torch.int64), GivenFractions(fractions[None]))
    counts = np.bincount(light[0], minlength=3)
    assert counts[1] == 0
    # Down to 2⁻⁵⁰ of the whole line weights are told apart; lighter ones all get the least there is.
    assert counts.tolist() == ([25, 0, 75] if heavy <= 1e12 else [50, 0, 50])


def test_many_users_leave_room_for_their_lines():
    # A row's number and a place on its line are searched for as one number of 63 bits.
    n_users, n_items = 200_000, 4
    users = np.arange(n_users)
    rejected = RejectedItems([ItemSets(n_users, n_items, Pairs(users, users % n_items))])
    draws = WeightedDraws(rejected, n_users, np.array([1.0, 1.0, 2.0, 4.0]))
    last = torch.arange(n_users - 4, n_users).repeat_interleave(8)  # owns 0, 1, 2, 3 in turn
    fractions = np.tile((np.arange(8) + 0.5) / 8, 4)
    found = draws.draw(last[None], GivenFractions(fractions[None])).view(4, 8)
    expected = [
        [item_on_the_line([1, 1, 2, 4], np.arange(4) == own, fraction) for fraction in fractions[:8]]
        for own in range(4)
    ]
    assert found.tolist() == expected


def test_a_user_who_owns_all_that_has_weight_is_refused():
    weights, none = np.array([1.0, 0.0, 2.0]), np.zeros((4, 3))
    full = none.copy()
    full[2] = 1, 0, 1
    # Once, however many replicas have it so; the number is the user's, not that of a row in all replicas' sets.
    for sets in ([full], [none, full], [none, full, full]):
        with pytest.raises(
            DataError, match=r"^1 of 4 users own every item of a weight above 0 .* user number 2\), so no"
        ):
            draws_of(*sets, weights=weights)


def test_replicas_that_stay_keep_their_own_sets():
    owned = [np.array([[1, 0, 0]]), np.array([[0, 1, 0]]), np.array([[0, 0, 1]])]
    rejected = rejected_of(*owned)
    draws = WeightedDraws(rejected, 1, np.ones(3))
    fractions = GivenFractions([[0.25, 0.75]] * 3)
    users = torch.zeros(3, 2, dtype=torch.int64)
    assert draws.draw(users, fractions).tolist() == [[1, 2], [0, 2], [0, 1]]
    rejected.keep(torch.tensor([2, 0]))
    assert draws.draw(users[:2], GivenFractions([[0.25, 0.75]] * 2)).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_draws_on_every_device(device):
    rng = np.random.default_rng(0)
    owned, weights = rng.random((2, 50, 300)) < 0.3, rng.random(300) ** 3
    users = torch.from_numpy(rng.integers(50, size=(2, 5000)))
    here, there = (
        draws_of(*owned, weights=weights, device=own).draw(users.to(own), ReplicaStream([0, 1], "x", own))
        for own in ("cpu", device)
    )
    assert torch.equal(here, there.cpu())
    assert len(here.unique()) > 200
