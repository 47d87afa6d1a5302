"""PNS against chances worked out item by item."""

from dataclasses import replace

import numpy as np
import pytest
from sampler_worlds import OWN_SETS, SmallWorld, each_row, in_proportion, p_value, random_owned

from pspns.data.split import Pairs
from pspns.errors import DataError, SettingsError
from pspns.negatives.popularity import PopularNegatives


def owned_by_some_more_than_others():
    """Items differ in popularity from 0 to 9 of 10 users; user 9 has nothing at all."""
    owned = random_owned()
    owned[:, :, 13] = False  # in train of nobody
    owned[0, :, 12], owned[1, 5, 12] = False, True  # nor this one, but constructed for a user of the second replica
    owned[0, :9, 0] = True
    owned[0, :7, 1] = True
    owned[0, :2, 1:4] = [[False, True, True], [True, False, True]]
    owned[:, 9] = False
    owned[1] |= owned[0]
    return owned


def counts_of(owned):
    """How many users have each item in train, counted one by one."""
    return np.array([sum(bool(has) for has in owned[0, :, item]) for item in range(owned.shape[2])], np.float64)


def weights_of(part, counts):
    if part.logarithmic:
        return np.log(counts + 1)
    return np.array([1.0 if part.exponent == 0 else count**part.exponent for count in counts])


PARTS = [
    PopularNegatives(),
    PopularNegatives(exponent=0.0),
    PopularNegatives(exponent=2.0),
    PopularNegatives(logarithmic=True),
]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_chances_are_what_popularity_makes_them_for_each_user_of_each_replica(part):
    # An item that the user has drawn instead of rejected, or counts of the second replica's own pairs, would be seen.
    world = SmallWorld(part, owned=owned_by_some_more_than_others())
    counts, weights = world.counts(world.everybody(8000)), weights_of(part, counts_of(world.owned))
    assert p_value(counts, in_proportion(weights, world.free)) > 1e-4
    if part == PopularNegatives():  # and so would be an exponent that is a little off
        assert p_value(counts, in_proportion(weights ** (0.8 / 0.75), world.free)) < 1e-6


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_is_the_item_where_the_stream_points_on_the_users_line(part):
    world = SmallWorld(part, owned=owned_by_some_more_than_others())
    weights = weights_of(part, counts_of(world.owned))
    for number in range(3):
        batch = world.batch(number)
        found, fractions = world.items(batch), world.stream(number).fractions(64).numpy()
        for replica, row, user, _ in each_row(batch):
            chances = in_proportion(weights, world.free[replica, user])
            item = next(i for i, end in enumerate(np.cumsum(chances)) if fractions[replica, row] < end)
            assert found[replica, row] == item


def test_frequencies_follow_three_quarters_of_popularity_for_a_user_with_nothing():
    world = SmallWorld(PopularNegatives(), owned=owned_by_some_more_than_others())
    drawn = world.counts(world.everybody(20_000))[:, 9].sum(0)
    counts = counts_of(world.owned)
    slope, _ = np.polyfit(np.log(counts[counts > 0]), np.log(drawn[counts > 0]), 1)
    assert slope == pytest.approx(0.75, abs=0.03)  # three standard errors


def test_what_nobody_has_is_drawn_only_if_popularity_does_not_count():
    batch = SmallWorld(PopularNegatives()).everybody(2000)
    drawn = {
        part: SmallWorld(part, owned=owned_by_some_more_than_others()).counts(batch)[..., [12, 13]].sum()
        for part in PARTS
    }
    assert [bool(n) for n in drawn.values()] == [False, True, False, False]


def test_pairs_repeated_in_train_change_nothing():
    part, world = PopularNegatives(), SmallWorld(PopularNegatives())
    twice = Pairs(*(np.repeat(numbers, 2) for numbers in (world.train.users, world.train.items)))
    sampler = part.start(replace(world.world, train=twice), world.seeds)
    batch = world.everybody(500)
    assert np.array_equal(world.items(batch), sampler.sample(batch, world.view).items)


def test_constructed_pairs_are_rejected_but_make_nothing_more_popular():
    owned = random_owned()
    plain, more = SmallWorld(PopularNegatives(), owned=owned), owned.copy()
    more[1] = owned[0]
    more[1, :5, 9] = True  # half the users of the second replica are given item 9 as a positive
    changed = SmallWorld(PopularNegatives(), owned=more)
    batch = plain.everybody(500)
    before, after = plain.items(batch), changed.items(batch)
    same = [replica for replica, own in enumerate(OWN_SETS) if own == 0]
    assert np.array_equal(before[same], after[same])
    assert p_value(changed.counts(batch)[1], in_proportion(counts_of(owned) ** 0.75, changed.free[1])) > 1e-4


def test_a_power_too_high_for_a_number_still_gives_the_most_popular_item():
    world = SmallWorld(PopularNegatives(exponent=400.0), owned=owned_by_some_more_than_others())
    assert counts_of(world.owned)[0] == 9  # 9⁴⁰⁰ is beyond float64
    batch = world.everybody(50)
    assert (world.items(batch)[batch.users == 9] == 0).all()  # the user who has nothing


def test_who_owns_all_that_has_weight_is_refused_but_not_without_weights():
    owned = random_owned()[:1]
    owned[0, :, 13] = False
    owned[0, 4, :13] = True
    with pytest.raises(DataError, match=r"1 of 10 users own every item of a weight above 0 .* user number 4\)"):
        SmallWorld(PopularNegatives(), owned=owned, own_sets=(0, 0, 0))
    world = SmallWorld(PopularNegatives(exponent=0.0), owned=owned, own_sets=(0, 0, 0))
    batch = world.everybody(5)
    assert (world.items(batch)[batch.users == 4] == 13).all()


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(-0.75, "at least 0, got -0.75"), (float("nan"), "a finite number, got nan"), (float("inf"), "a finite number")],
)
def test_a_wrong_setting_is_refused(exponent, expected):
    with pytest.raises(SettingsError, match=rf"exponent must be {expected}.*; change \[negatives\] exponent"):
        PopularNegatives(exponent=exponent)
