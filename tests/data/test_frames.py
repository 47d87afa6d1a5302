"""Frames in memory: polars, pandas and Arrow give the same Interactions, and ids keep their type."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data import interactions
from pspns.data.frames import from_frame, is_frame
from pspns.errors import DataError


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


KINDS = {
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pandas": pd.DataFrame,
    "arrow": pa.table,
    "batch": pa.RecordBatch.from_pydict,
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def test_every_kind_of_frame_gives_the_same(make):
    found = from_frame(make({"visitor": ["b", "a", "b"], "sku": [10, 9, 10], "price": [1.0, 2.0, 3.0]}))
    assert found.user_ids.tolist() == ["a", "b"]
    assert found.item_ids.tolist() == [9, 10]
    assert found.item_ids.dtype == np.int64
    assert found.users.tolist() == [0, 1]
    assert found.facts == (
        "columns: user = 'visitor', item = 'sku', no rating, no time",
        "columns ignored: 'price'",
        "1 repeated row merged",
    )


def test_columns_and_ratings(make):
    frame = make({"who": ["a", "b"], "what": ["x", "y"], "liked": [1, 5]})
    found = from_frame(frame, columns={"user": "who", "item": "what", "rating": "liked"}, min_rating=4)
    assert pairs(found) == {("b", "y")}
    with pytest.raises(DataError, match=r"no column 'wat'.*did you mean 'what'"):
        from_frame(frame, columns={"user": "who", "item": "wat"})


def test_the_first_time_of_a_pair_counts(make):
    moments = [datetime.datetime(2020, 1, day) for day in (3, 2)]
    found = from_frame(make({"user": [1, 1], "item": [2, 2], "when": moments}), columns={"time": "when"})
    assert found.times.tolist() == [1577923200.0]


def test_missing_ids_are_errors_with_row_and_column(make):
    with pytest.raises(DataError, match=r"row 2: column 'user' is empty"):
        from_frame(make({"user": ["a", None], "item": [1, 2]}))


def test_unsigned_ids_beyond_int64_stay(make):
    frame = make({"user": np.array([2**64 - 1, 3], dtype=np.uint64), "item": np.array([1, 2], dtype=np.uint8)})
    found = from_frame(frame)
    assert found.user_ids.tolist() == [3, 2**64 - 1]
    assert found.user_ids.dtype == np.uint64
    assert found.item_ids.dtype == np.int64


def test_unsigned_ids_within_int64_become_int64():
    found = from_frame(pl.DataFrame({"user": pl.Series([1], dtype=pl.UInt64), "item": [2]}))
    assert found.user_ids.dtype == np.int64


def test_numbers_beyond_64_bits_are_refused():
    with pytest.raises(DataError, match=r"column 'user' holds whole numbers beyond 64 bits"):
        from_frame(pl.DataFrame({"user": pl.Series([2**70], dtype=pl.Int128), "item": [2]}))


def test_pandas_floats_from_missing_values_are_explained():
    with pytest.raises(DataError, match=r"pandas DataFrame: column 'user' holds Float64.*Missing values"):
        from_frame(pd.DataFrame({"user": [1, None], "item": [1, 2]}))


def test_pandas_mixed_kinds_are_explained():
    with pytest.raises(DataError, match=r"pandas DataFrame: column 'user' mixes kinds of values"):
        from_frame(pd.DataFrame({"user": [1, "a"], "item": [1, 2]}))


def test_pandas_names_that_are_numbers_go_by_position():
    assert pairs(from_frame(pd.DataFrame([[1, 2], [3, 4]]), columns={"user": 1, "item": 0})) == {
        (2, 1),
        (4, 3),
    }


def test_pandas_names_that_occur_twice_and_an_odd_index():
    frame = pd.DataFrame([["x", 1, "y"], ["x", 2, "z"]], columns=["n", "user", "n"], index=[5, 5])
    assert pairs(from_frame(frame, columns={"item": 2})) == {(1, "y"), (2, "z")}


def test_categories_are_their_text():
    texts = pl.Series(["b", "10", "9", "b"])
    expected = from_frame(pl.DataFrame({"user": texts, "item": [1, 2, 3, 4]}))
    for column in (texts.cast(pl.Categorical), texts.cast(pl.Enum(["b", "9", "10"]))):
        found = from_frame(pl.DataFrame({"user": column, "item": [1, 2, 3, 4]}))
        assert found.user_ids.tolist() == expected.user_ids.tolist() == ["9", "10", "b"]
        assert found.users.tolist() == expected.users.tolist()
    found = from_frame(pd.DataFrame({"user": pd.Categorical(["b", "a"]), "item": pd.Categorical([7, 8])}))
    assert pairs(found) == {("b", 7), ("a", 8)}


def test_an_empty_frame_is_an_error(make):
    with pytest.raises(DataError, match=r"there are no rows"):
        from_frame(make({"user": [], "item": []}))


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["007", "7", "-7", "-0", "+7", "0", " 7", "7.0", "b", "ü", "😀", "\uffff"]),
            st.sampled_from([str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1)]),
            st.integers(-20, 20).map(str),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_numbering_agrees_with_the_one_in_plain_python(texts):
    found = from_frame(pl.DataFrame({"user": texts, "item": range(len(texts))}))
    expected_ids, expected_places = interactions.number_ids(texts, "user")
    assert found.user_ids.tolist() == expected_ids.tolist()
    assert found.user_ids.dtype == expected_ids.dtype
    assert found.users[np.argsort(found.items)].tolist() == expected_places.tolist()


def test_what_is_a_frame(make):
    assert is_frame(make({"user": [1], "item": [2]}))
    assert not is_frame({"user": [1]})
    assert not is_frame(np.zeros((2, 2)))
    assert not is_frame(pd.Series([1]))
