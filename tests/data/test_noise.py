"""False pairs: how many, of whom, which, and what is known of them."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats
from toy import given_split

from pspns.data.noise import add_noise, describe_noise, noise_words
from pspns.data.settings import DataSettings
from pspns.data.split import Pairs, Split
from pspns.errors import SettingsError
from pspns.rng import host_stream


def owning(*items_of_users: set[int], n_items: int, valid=(), test=(), n_more_items: int = 0) -> Split:
    """Users who have these items in train; held-out pairs as (user, item), with items beyond `n_items`, too."""
    train = [(user, item) for user, items in enumerate(items_of_users) for item in items]
    parts = [
        Pairs.sorted_from(*(np.array(side) for side in zip(*pairs, strict=True))) if pairs else Pairs.none()
        for pairs in (train, valid, test)
    ]
    n_users = len(items_of_users)
    return Split(*parts, n_users, n_items, np.arange(n_users), np.arange(n_items + n_more_items), made_by="by hand")


def random_split(n_users=50, n_items=40, n_pairs=400, seed=0) -> Split:
    given = given_split(n_users, n_items, n_pairs, seed)
    return Split.from_parts(given.interactions, given.parts, "toy")


def keys(pairs: Pairs) -> set[tuple[int, int]]:
    return set(zip(pairs.users.tolist(), pairs.items.tolist(), strict=True))


def noisy(split: Split, share: float, seed: int = 0) -> Split:
    return add_noise(split, share, np.random.default_rng(seed))


@pytest.mark.parametrize("share", [0.001, 0.07, 0.2, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_false_pairs_is_exact_for_all_and_for_each(share, seed):
    split = random_split(n_items=80)
    found = noisy(split, share, seed)
    assert abs(len(found.noise) - share * len(split.train)) < 1
    wanted = share * np.bincount(split.train.users, minlength=split.n_users)
    given = np.bincount(found.noise.users, minlength=split.n_users)
    assert (np.abs(given - wanted) < 1).all()
    assert found.n_noise_missing == 0


def test_a_fraction_of_a_pair_comes_as_often_as_it_should():
    # 3 pairs at 10 %: a false one with probability 0.3 for each of the four users, wherever they stand.
    split = owning({0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {5, 6, 7}, n_items=30)
    given = sum(np.bincount(noisy(split, 0.1, seed).noise.users, minlength=4) for seed in range(2000))
    assert (np.abs(given / 2000 - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 2000)).all()


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0, 3.0, 50.0])
def test_false_pairs_are_new_known_to_train_sorted_and_there_once(share):
    split = random_split()
    found = noisy(split, share)
    noise = list(zip(found.noise.users.tolist(), found.noise.items.tolist(), strict=True))
    assert len(noise) > 0
    assert noise == sorted(set(noise))
    assert not set(noise) & keys(split.train)
    assert found.noise.items.max() < split.n_items
    assert found.noise.users.max() < split.n_users
    assert keys(found.train) == keys(split.train) | set(noise)
    assert len(found.train) == len(split.train) + len(noise)
    assert (np.diff(found.train.users * split.n_items + found.train.items) > 0).all()


def test_everything_but_train_stays():
    split = random_split()
    found = noisy(split, 0.3)
    assert (found.n_users, found.n_items) == (split.n_users, split.n_items)
    assert (found.valid, found.test) == (split.valid, split.test)
    assert found.user_ids is split.user_ids
    assert keys(found.clean_train) == keys(split.train)
    assert split.clean_train is split.train
    assert found.made_by == "toy; 30 % random false pairs added to train"


def test_the_fingerprint_tells_noise():
    split = random_split()
    found = noisy(split, 0.3)
    unmarked = dataclasses.replace(found, noise=Pairs.none())
    assert len({one.fingerprint() for one in (split, found, noisy(split, 0.3, seed=1), unmarked)}) == 4
    assert noisy(split, 0.3).fingerprint() == found.fingerprint()


def test_the_same_numbers_give_the_same_noise():
    split = random_split()
    one, two = (add_noise(split, 0.4, host_stream(7, "noise")) for _ in range(2))
    assert np.array_equal(one.noise.items, two.noise.items)
    assert keys(one.noise) != keys(add_noise(split, 0.4, host_stream(8, "noise")).noise)


def chi_square(n_draws: int, share: float, extra: int = 0) -> float:
    """The p-value of items being uniform over what each user has free; `extra` is put on one item of each."""
    owned = [{0, 4, 5, 11}, {1, 2, 3, 6, 7, 8, 9, 10}, {0, 3, 6, 9}]
    split, rng = owning(*owned, n_items=12), np.random.default_rng(1)
    counts = np.zeros((3, 12))
    for _ in range(n_draws):
        noise = add_noise(split, share, rng).noise
        np.add.at(counts, (noise.users, noise.items), 1)
    statistic, freedom = 0.0, 0
    for row, own in zip(counts, owned, strict=True):
        assert not row[sorted(own)].any()
        free = np.delete(row, sorted(own))
        chance = free.sum() / n_draws / len(free)
        free[0] += extra
        # Of f cells k are taken in each draw: they are correlated by −1 / (f − 1), hence the last factor.
        variance = n_draws * chance * (1 - chance) * len(free) / (len(free) - 1)
        statistic += ((free - n_draws * chance) ** 2).sum() / variance
        freedom += len(free) - 1
    return float(stats.chi2.sf(statistic, freedom))


# Items are drawn for a user who takes at most half of those that are free; else those that are left. Of 8, 4 and 8
# free ones the first share takes 2, 3 and 2, the second 5, 3 and 5.
@pytest.mark.parametrize("share", [0.5, 1.25])
def test_items_are_uniform_over_those_that_are_free(share):
    assert chi_square(3000, share) > 1e-4
    assert chi_square(3000, share, extra=200) < 1e-4, "too many of one item must be noticed"


def test_all_sets_of_items_are_equally_likely():
    # 3 of 4 free items but one must stay free: C(4, 3) sets; and 2 of 4 for the other user: C(4, 2).
    split = owning({0, 1, 2}, {3, 4}, {5, 6}, n_items=7)
    counts = {frozenset(taken): 0 for taken in itertools.combinations([3, 4, 5, 6], 3)}
    pairs = {frozenset(taken): 0 for taken in itertools.combinations([0, 1, 2, 5, 6], 2)}
    rng = np.random.default_rng(0)
    for _ in range(2000):
        noise = add_noise(split, 1.0, rng).noise
        counts[frozenset(noise.items[noise.users == 0].tolist())] += 1
        pairs[frozenset(noise.items[noise.users == 1].tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-4


def test_a_user_keeps_one_item_free_and_the_rest_is_counted():
    everything, all_but_one, half = set(range(6)), set(range(5)), {0, 1, 2}
    split = owning(everything, all_but_one, half, n_items=6)
    found = noisy(split, 1.0)
    assert np.bincount(found.noise.users, minlength=3).tolist() == [0, 0, 2]
    assert np.bincount(found.train.users).tolist() == [6, 5, 5]
    assert found.n_noise_missing == 6 + 5 + 1
    assert describe_noise(found, 1.0)["shortfall"] == 12
    assert "there was no room for 12 more" in noise_words(describe_noise(found, 1.0))


@pytest.mark.parametrize("share", [40.0, 1e6, 1e308])
def test_an_enormous_share_leaves_everybody_one_item(share):
    split = random_split()
    found = noisy(split, share)
    assert (np.bincount(found.train.users) == split.n_items - 1).all()
    asked = min(share, split.n_items) * len(split.train)
    assert abs(len(found.noise) + found.n_noise_missing - asked) < 1


def test_a_share_of_less_than_a_pair_may_give_none():
    found = noisy(owning({0}, {1}, n_items=3), 1e-9)
    assert len(found.noise) == 0
    assert found.clean_train is found.train


def test_collisions_with_what_is_held_out_are_counted():
    valid, test = [(0, 1), (0, 7), (1, 0)], [(0, 2), (0, 3), (0, 6)]
    split = owning({0, 5}, {1, 2, 3, 4}, n_items=6, valid=valid, test=test, n_more_items=2)
    found = [noisy(split, 1.0, seed) for seed in range(20)]
    facts = [describe_noise(one, 1.0) for one in found]
    for one, fact in zip(found, facts, strict=True):
        noise = keys(one.noise)
        assert fact["held_out"] == {"valid": len(noise & set(valid)), "test": len(noise & set(test))}
        assert (fact["share"], fact["pairs"], fact["shortfall"]) == (1.0, 3, 3)
    assert {fact["held_out"]["test"] for fact in facts} == {0, 1, 2}
    words = noise_words({"share": 0.25, "pairs": 1234, "shortfall": 0, "held_out": {"valid": 1, "test": 2}})
    assert words == (
        "1,234 random false pairs added to train (25 % of its pairs); of them 1 happen to be held out for validation, "
        "2 for the test"
    )


def test_which_pairs_are_noise():
    split = noisy(random_split(), 0.3)
    everything = Pairs(*(side.ravel() for side in np.indices((split.n_users, len(split.item_ids)))))
    noise = keys(split.noise)
    expected = [pair in noise for pair in zip(everything.users.tolist(), everything.items.tolist(), strict=True)]
    assert split.are_noise(everything).tolist() == expected
    assert not random_split().are_noise(everything).any()


@pytest.mark.parametrize("noise", [-0.1, float("inf"), float("nan"), -1])
def test_a_share_must_be_a_number_of_at_least_0(noise):
    with pytest.raises(SettingsError, match=r"^noise must be a finite number of at least 0, got .*\[data\] noise"):
        DataSettings(noise=noise)
    assert DataSettings().noise == 0
