"""Parquet files: number and text ids come back as they were."""

from __future__ import annotations

import datetime
import gzip
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data.formats.parquet import read
from pspns.data.gather import to_interactions
from pspns.data.interactions import is_plain_number
from pspns.data.table import Reading
from pspns.errors import DataError, SettingsError


def load(path, min_rating=None, **how):
    return to_interactions(read(path, Reading(**how)), min_rating)


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


@pytest.fixture
def write(tmp_path):
    def write_file(frame, name="clicks.parquet"):
        frame.write_parquet(tmp_path / name)
        return tmp_path / name

    return write_file


TEXTS = st.one_of(
    st.sampled_from(["007", "7", "-7", 'say "hi"', "a,b", "a b", "ünï", str(2**63 - 1), str(2**63)]),
    st.text(min_size=1, max_size=5).filter(lambda text: text.isprintable()),
)
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))
BIG = st.one_of(st.integers(2**63, 2**64 - 1), st.integers(0, 5))


@settings(deadline=None, max_examples=80)
@given(
    st.one_of(
        st.tuples(st.just(pl.String), st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=20)),
        st.tuples(st.just(pl.Int64), st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=20)),
        st.tuples(st.just(pl.UInt64), st.lists(st.tuples(BIG, BIG), min_size=1, max_size=20)),
    )
)
def test_no_id_changes(typed_rows):
    dtype, rows = typed_rows
    users, items = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.parquet"
        pl.DataFrame({"user": users, "item": items}, schema={"user": dtype, "item": dtype}).write_parquet(path)
        found = load(path)
    as_written = {
        name: (lambda value: int(value)) if all(is_plain_number(str(v)) for v in values) else (lambda value: value)
        for name, values in (("user", users), ("item", items))
    }
    assert pairs(found) == {(as_written["user"](user), as_written["item"](item)) for user, item in rows}
    assert len(found.user_ids) == len(set(users))


def test_only_columns_with_a_role_are_read(write):
    found = load(write(pl.DataFrame({"note": [[1], [2]], "user": [2, 1], "item": ["x", "y"]})))
    assert pairs(found) == {(2, "x"), (1, "y")}
    assert "columns ignored: 'note'" in found.facts


def test_dates_become_seconds(write):
    moment = datetime.datetime(2021, 3, 4, 5, 6, 7, 500_000, tzinfo=datetime.UTC)
    frame = pl.DataFrame({"user": [1], "item": [2], "time": [moment]})
    assert load(write(frame)).times.tolist() == [moment.timestamp()]
    assert load(write(frame.with_columns(pl.col("time").dt.date()))).times.tolist() == [1614816000.0]


def test_a_packed_parquet_file(write, tmp_path):
    plain = write(pl.DataFrame({"user": [1], "item": [2]}))
    packed = tmp_path / "clicks.parquet.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert pairs(load(packed)) == {(1, 2)}


@pytest.mark.parametrize(
    ("frame", "parts"),
    [
        (pl.DataFrame({"user": [1, None], "item": [2, 3]}), ["row 2", "column 'user' is empty"]),
        (pl.DataFrame({"user": ["a", "b"], "item": ["x", ""]}), ["row 2", "column 'item' is empty"]),
        (pl.DataFrame({"user": [1.0, 2.0], "item": [2, 3]}), ["column 'user' holds Float64", "pandas"]),
        (
            pl.DataFrame({"user": [True], "item": [2]}),
            ["column 'user' holds Boolean", "whole numbers or text"],
        ),
        (pl.DataFrame({"user": [1], "item": [2], "rating": [None]}), ["row 1", "column 'rating' is empty"]),
        (
            pl.DataFrame({"user": [1], "item": [2], "rating": [float("inf")]}),
            ["row 1", "column 'rating' is inf"],
        ),
        (pl.DataFrame({"user": [1], "item": [2], "rating": [[1]]}), ["column 'rating' holds List"]),
        (pl.DataFrame({"user": [], "item": []}), ["no rows"]),
        (pl.DataFrame({"who": [1], "what": [2]}), ["cannot tell which column is the user and the item"]),
    ],
)
def test_errors_name_file_row_and_column(write, frame, parts):
    path = write(frame)
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value).startswith(str(path))
    assert [part for part in parts if part not in str(error.value)] == []


def test_a_file_that_is_no_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text("user,item\n1,2\n")
    with pytest.raises(DataError, match=f"^{path}: not a Parquet file"):
        load(path)


def test_header_does_not_apply(write):
    with pytest.raises(SettingsError, match="header cannot be set for a Parquet file"):
        load(write(pl.DataFrame({"user": [1], "item": [2]})), header=True)


def test_brackets_in_a_path_are_no_pattern(tmp_path):
    folder = tmp_path / "a[31mb*"
    folder.mkdir()
    pl.DataFrame({"user": [1, 2], "item": [3, 4]}).write_parquet(folder / "x.parquet")
    table = read(folder / "x.parquet", Reading())
    assert to_interactions(table, None).item_ids.tolist() == [3, 4]
