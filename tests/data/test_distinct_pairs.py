"""Pairs that come in pieces and shards are those that a dict keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data import distinct_pairs as module
from pspns.data.distinct_pairs import DistinctPairs, distinct_pairs

N_USERS, N_ITEMS = 150, 7  # more users than shards

ROWS = st.lists(st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1), st.integers(-9, 9)), max_size=60)


def columns(rows):
    users, items, times = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return users.astype(np.uint32), items.astype(np.uint32), times.astype(np.float64)


def earliest(rows, name=lambda user, item: (user, item)):
    times = {}
    for user, item, time in rows:
        pair = name(user, item)
        times[pair] = min(time, times.get(pair, time))
    return sorted((*pair, time) for pair, time in times.items())


@settings(deadline=None, max_examples=200)
@given(st.lists(ROWS, max_size=5), st.sampled_from([1, 20, 1 << 18]), st.booleans(), st.integers(0, 9))
def test_the_same_as_a_dict(pieces, dealt_at_once, with_times, seed):
    rng = np.random.default_rng(seed)
    user_places, item_places = rng.permutation(N_USERS), rng.permutation(N_ITEMS)
    pairs = DistinctPairs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_DEALT_AT_ONCE", dealt_at_once)
        for piece in pieces:
            users, items, times = columns(piece)
            pairs.add(users, items, times if with_times else None)
        users, items, times = pairs.in_places(user_places, item_places)
    rows = [row for piece in pieces for row in piece]
    expected = earliest(rows, lambda user, item: (user_places[user], item_places[item]))
    assert list(zip(users.tolist(), items.tolist(), strict=True)) == [(user, item) for user, item, _ in expected]
    assert users.dtype == items.dtype == np.int64
    if with_times and pieces:
        assert times.tolist() == [time for *_, time in expected]
    else:
        assert times is None


def test_codes_that_leave_no_bits_for_rows():
    highest = 2**32 - 1
    rows = [(highest, highest, 5), (highest, 0, 4), (0, highest, 3), (highest, highest, 2), (highest, 0, 9)]
    found = distinct_pairs(*columns(rows))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == earliest(rows)


def test_rows_that_repeat_do_not_pile_up():
    pairs = DistinctPairs()
    users, items = np.arange(1000, dtype=np.uint32), np.zeros(1000, np.uint32)
    for _ in range(3000):
        pairs.add(users, items, None)
    held = sum(len(piece) for shard in pairs._shards for piece in shard.rows.users)
    assert held + pairs._n_waiting < 2 * module._DEALT_AT_ONCE
    users, items, _ = pairs.in_places(np.arange(1000), np.arange(1))
    assert users.tolist() == list(range(1000))
