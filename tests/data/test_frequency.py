"""Leaving out what is rare: the k-core, against a loop over sets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pspns
from pspns.data.frequency import leave_out_rare
from pspns.data.interactions import Interactions
from pspns.errors import DataError, SettingsError


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


def brute_force(rest: set[tuple[int, int]], least_user: int, least_item: int) -> set[tuple[int, int]]:
    while True:
        users, items = [u for u, _ in rest], [i for _, i in rest]
        kept = {(u, i) for u, i in rest if users.count(u) >= least_user and items.count(i) >= least_item}
        if kept == rest:
            return rest
        rest = kept


@settings(deadline=None, max_examples=300)
@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1), st.integers(1, 4), st.integers(1, 4))
def test_the_same_as_a_loop(rows, least_user, least_item):
    data = Interactions.from_arrays([u for u, _ in rows], [i for _, i in rows], times=[10 * u + i for u, i in rows])
    expected = brute_force(rows, least_user, least_item)
    if not expected:
        with pytest.raises(DataError, match="nothing is left with at least"):
            leave_out_rare(data, min_user_pairs=least_user, min_item_pairs=least_item)
        return
    found = leave_out_rare(data, min_user_pairs=least_user, min_item_pairs=least_item)
    assert pairs(found) == expected
    assert found.user_ids.tolist() == sorted({u for u, _ in expected})
    assert found.times.tolist() == [10 * u + i for u, i in sorted(expected)]


def test_through_load_and_what_is_told(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item\na,1\na,2\nb,1\nb,2\nc,2\n")
    assert len(pspns.load(path, min_item_pairs=3)) == 3
    found = pspns.load(path, core=2)
    assert pairs(found) == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}
    assert found.facts[-1] == (
        "1 of 5 pairs, 1 users and 0 items left out: at least 2 pairs for each user and 2 for each item"
    )
    with pytest.raises(SettingsError, match="give either it or them"):
        pspns.load(path, core=2, min_user_pairs=3)
    with pytest.raises(SettingsError, match="min_user_pairs must be at least 1, got 0"):
        pspns.load(path, core=0)


def test_parts_that_are_given_stay_whole(tmp_path):
    (tmp_path / "train.csv").write_text("user,item\na,1\n")
    (tmp_path / "test.csv").write_text("user,item\na,2\n")
    with pytest.raises(SettingsError, match="cannot be set where the parts are given"):
        pspns.load(tmp_path, core=2)
