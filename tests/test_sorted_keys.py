"""Against Python's sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pspns.sorted_keys import are_in, distinct

# Few values, so that many repeat; the ends of int64, where differences overflow.
numbers = st.lists(st.one_of(st.integers(-3, 9), st.sampled_from([-(2**63), 2**63 - 1])))


def keys(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(numbers)
def test_distinct_is_the_sorted_set(values):
    given_numbers = keys(values)
    found = distinct(given_numbers)
    assert found.tolist() == sorted(set(values))
    assert found.dtype == np.int64
    assert given_numbers.tolist() == values  # left as it was


@given(numbers, numbers)
def test_are_in_is_membership(values, members):
    found = are_in(keys(values), keys(sorted(set(members))))
    assert found.tolist() == [value in members for value in values]
    assert found.dtype == np.bool_


@pytest.mark.parametrize("value", [0, 5, 9])
def test_below_between_and_beyond_all_keys(value):
    assert are_in(keys([value]), keys([1, 4, 7])).tolist() == [False]
    assert are_in(keys([value]), keys([])).tolist() == [False]
