"""User groups, against sorted Python tuples of (train pairs, number)."""

from __future__ import annotations

import numpy as np
import pytest

from pspns.errors import DataError, SettingsError
from pspns.evaluation.groups import deciles, least_active

# Few distinct counts, so that almost every place is decided by a tie.
COUNTS = [np.random.default_rng(seed).integers(0, 6, size=size) for seed, size in enumerate((1, 3, 10, 57, 1000))]

each_size = pytest.mark.parametrize("counts", COUNTS, ids=len)


def users_by_activity(counts) -> list[int]:
    return [user for _, user in sorted((count, user) for user, count in enumerate(counts.tolist()))]


@each_size
def test_least_active_by_sorting(counts):
    for n in {1, (len(counts) + 1) // 2, len(counts)}:
        chosen = least_active(counts, n)
        assert chosen.dtype == np.int64
        assert chosen.tolist() == sorted(users_by_activity(counts)[:n])


def test_ties_go_to_the_lower_number():
    assert least_active(np.array([2, 1, 2, 2, 1]), n=3).tolist() == [0, 1, 4]


@each_size
def test_deciles_by_sorting(counts):
    decile = deciles(counts)
    assert decile.dtype == np.int8
    # Along the order of activity deciles never fall, and their sizes are as even as can be.
    in_order = [int(decile[user]) for user in users_by_activity(counts)]
    assert in_order == sorted(in_order)
    sizes = np.bincount(decile, minlength=10)
    assert len(sizes) == 10
    assert sizes.sum() == len(counts)
    assert sizes.max() - sizes.min() <= 1


def test_deciles_of_twenty_equal_users_go_by_number():
    assert deciles(np.full(20, 7)).tolist() == [user // 2 for user in range(20)]


def test_arguments_are_left_as_they_were():
    counts = np.array([3, 1, 2])
    least_active(counts, 2)
    deciles(counts)
    assert counts.tolist() == [3, 1, 2]


@pytest.mark.parametrize("n", [-1, 0, 4])
def test_impossible_group_sizes_are_refused(n):
    with pytest.raises(SettingsError, match=f"between 1 and 3 users .*got {n}"):
        least_active(np.array([1, 2, 3]), n)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.array([1.0, 2.0]), "whole numbers.*float64"),
        (np.array([[1, 2]]), r"flat.*\(1, 2\)"),
        (np.array([], dtype=np.int64), r"non-empty.*\(0,\)"),
        (np.array([4, -2]), "user 1 has -2 train pairs"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, message):
    with pytest.raises(DataError, match=message):
        least_active(counts, 1)
    with pytest.raises(DataError, match=message):
        deciles(counts)
