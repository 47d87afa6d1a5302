"""Figures of small data worked by hand, and of larger ones counted in another way."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from pspns.data.interactions import Interactions
from pspns.data.planted import plant
from pspns.data.profile import PERCENTILES, Bin, Degrees, Profile, are_seconds, profile
from pspns.data.split import GivenSplit, Part

# Users a, b, c, d with 4, 2, 1, 1 pairs; items 1, 2, 3, 4 with 4, 2, 1, 1.
USERS = ["a", "a", "a", "a", "b", "b", "c", "d"]
ITEMS = [1, 2, 3, 4, 1, 2, 1, 1]


def small() -> Profile:
    return profile(Interactions.from_arrays(USERS, ITEMS))


def test_counts_worked_by_hand() -> None:
    found = small()
    assert (found.users, found.items, found.pairs, found.density) == (4, 4, 8, 0.5)
    assert (found.parts, found.times) == (None, None)
    # One of the four items is the most popular 1 %, and the most popular 10 %: item 1 with 4 of 8 pairs.
    assert (found.top_1_percent_share, found.top_10_percent_share) == (0.5, 0.5)
    # Mean absolute difference over all 16 ordered pairs of items, over twice the mean: (20 / 16) / (2 · 2).
    assert found.item_gini == pytest.approx(0.3125)


def test_degrees_worked_by_hand() -> None:
    users = small().user_degrees
    assert users.mean == 2
    assert users.percentiles == {"min": 1, "p10": 1, "p25": 1, "p50": 1, "p75": 2, "p90": 4, "p99": 4, "max": 4}
    assert users.histogram == (Bin(1, 1, 2), Bin(2, 3, 1), Bin(4, 7, 1))
    assert (users.single, users.below_5) == (2, 4)
    assert small().item_degrees == users


def test_the_histogram_counts_everybody_once_in_powers_of_two() -> None:
    counts = np.array([5, 6, 7, 8, 15, 16, 31, 32, 100, 1023, 1024])
    bins = Degrees.of(counts).histogram
    assert [(bin.least, bin.most) for bin in bins] == [(2**n, 2 ** (n + 1) - 1) for n in range(2, 11)]
    assert [bin.count for bin in bins] == [int(((counts >= bin.least) & (counts <= bin.most)).sum()) for bin in bins]
    assert sum(bin.count for bin in bins) == len(counts)
    assert Degrees.of(np.array([0, 0, 1])).histogram == (Bin(0, 0, 2), Bin(1, 1, 1))


def test_larger_data_counted_in_another_way() -> None:
    pairs = plant("low-rank", n_users=300, n_items=250, rng=np.random.default_rng(1)).interactions
    found = profile(pairs)
    per_user, per_item = Counter(pairs.users.tolist()), Counter(pairs.items.tolist())
    for name, percent in PERCENTILES.items():
        cut = found.user_degrees.percentiles[name]
        # At least that share has at most so many pairs, and with one pair less it is not so.
        assert sum(count <= cut for count in per_user.values()) >= percent / 100 * found.users
        assert sum(count < cut for count in per_user.values()) <= percent / 100 * found.users
    assert found.user_degrees.below_5 == sum(count < 5 for count in per_user.values())
    assert found.item_degrees.single == sum(count == 1 for count in per_item.values())
    assert found.top_10_percent_share == sum(n for _, n in per_item.most_common(-(-found.items // 10))) / len(pairs)
    counts = np.array(list(per_item.values()))
    differences = np.abs(counts[:, None] - counts).mean()
    assert found.item_gini == pytest.approx(differences / (2 * counts.mean()))


def test_equally_popular_items_have_no_gini() -> None:
    assert profile(Interactions.from_arrays([1, 1, 2, 2], [1, 2, 1, 2])).item_gini == 0


def test_a_given_split_counts_its_parts() -> None:
    pairs = Interactions.from_arrays(USERS, ITEMS)
    parts = np.array([Part.TRAIN] * 5 + [Part.TEST] * 3, dtype=np.int8)
    found = profile(GivenSplit(pairs, parts, "toy"))
    assert found.parts == {"train": 5, "test": 3}
    assert found.pairs == 8


def test_times() -> None:
    found = profile(Interactions.from_arrays(USERS, ITEMS, times=np.linspace(956703932, 1046454590, 8)))
    assert found.times is not None
    assert found.times.words() == "2000-04-25 to 2003-02-28"
    order = profile(Interactions.from_arrays(USERS, ITEMS, times=np.arange(8)))
    assert order.times is not None
    assert order.times.words() == "0 to 7"


def test_a_single_odd_time_does_not_hide_that_the_others_are_seconds() -> None:
    assert are_seconds(np.array([0.0, 1.6e9, 1.6e9, 1.7e12]))
    assert not are_seconds(np.array([2019.0, 2020.0, 1.6e9]))


def test_as_json() -> None:
    found = json.loads(json.dumps(small().as_dict()))
    assert found["user_degrees"]["percentiles"]["p75"] == 2
    assert found["user_degrees"]["histogram"][1] == {"least": 2, "most": 3, "count": 1}
    assert found["item_gini"] == pytest.approx(0.3125)
