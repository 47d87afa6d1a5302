"""Folders of train, validation and test files."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data.folder import read_folder
from pspns.data.split import Part
from pspns.data.table import Reading
from pspns.errors import DataError


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


def load(path, *, format=None, min_rating=None, **how):
    return read_folder(path, Reading(**how), format=format, min_rating=min_rating)


def pairs(given_split, part):
    found, chosen = given_split.interactions, given_split.parts == part
    users, items = found.user_ids[found.users[chosen]], found.item_ids[found.items[chosen]]
    return set(zip(users.tolist(), items.tolist(), strict=True))


def test_the_three_parts(folder):
    found = load(
        folder(
            train__tsv="user\titem\n1\t10\n2\t11\n",
            valid__tsv="user\titem\n1\t12\n",
            test__tsv="user\titem\n3\t10\n",
        )
    )
    assert pairs(found, Part.TRAIN) == {(1, 10), (2, 11)}
    assert pairs(found, Part.VALID) == {(1, 12)}
    assert pairs(found, Part.TEST) == {(3, 10)}
    assert found.parts.dtype == np.int8
    assert found.interactions.user_ids.tolist() == [1, 2, 3]
    assert "train.tsv, valid.tsv, test.tsv" in found.source
    assert found.interactions.facts == ("columns: user = 'user', item = 'item', no rating, no time",)


@pytest.mark.parametrize("name", ["valid__csv", "validation__csv", "val__csv"])
def test_names_of_the_validation_file(folder, name):
    found = load(folder(train__csv="1,2\n", test__csv="1,3\n", **{name: "1,4\n"}))
    assert pairs(found, Part.VALID) == {(1, 4)}


def test_formats_may_differ_and_validation_may_be_missing(folder):
    path = folder(train__csv__gz=gzip.compress(b"user,item\n1,2\n"), README__md="words", user_list__txt="a b")
    pl.DataFrame({"user": [7], "item": [2]}).write_parquet(path / "test.parquet")
    found = load(path)
    assert pairs(found, Part.TRAIN) == {(1, 2)}
    assert pairs(found, Part.TEST) == {(7, 2)}
    assert Part.VALID not in found.parts
    assert found.interactions.user_ids.dtype == np.int64


def test_ids_are_text_everywhere_if_one_part_needs_it(folder):
    found = load(folder(train__csv="user,item\n1,2\n", test__csv="user,item\n01,2\n"))
    assert pairs(found, Part.TRAIN) == {("1", 2)}
    assert pairs(found, Part.TEST) == {("01", 2)}


def test_a_pair_stays_in_the_earliest_part(folder):
    found = load(
        folder(
            train__csv="user,item,time\n1,1,50\n1,2,5\n1,2,6\n",
            valid__csv="user,item,time\n1,2,1\n1,3,1\n",
            test__csv="user,item,time\n1,1,2\n1,2,3\n1,3,4\n1,4,5\n",
        )
    )
    assert pairs(found, Part.TRAIN) == {(1, 1), (1, 2)}
    assert pairs(found, Part.VALID) == {(1, 3)}
    assert pairs(found, Part.TEST) == {(1, 4)}
    assert "valid: 1 pair dropped, also in an earlier part" in found.interactions.facts
    assert "test: 3 pairs dropped, also in an earlier part" in found.interactions.facts
    assert "1 repeated row merged" in found.interactions.facts
    # The dropped row of the test must not lend its earlier time.
    assert found.interactions.times.tolist() == [50.0, 5.0, 1.0, 5.0]


ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(parts=st.tuples(ROWS, ROWS, ROWS), min_rating=st.sampled_from([None, 3]))
def test_the_same_parts_as_sets_give(tmp_path_factory, parts, min_rating):
    path = tmp_path_factory.mktemp("folder")
    expected, taken = [], set()
    for name, rows in zip(("train", "valid", "test"), parts, strict=True):
        text = "".join(f"{user},{item},{rating}\n" for user, item, rating in rows)
        (path / f"{name}.csv").write_text(f"user,item,rating\n{text}")
        counted = {(user, item) for user, item, rating in rows if min_rating is None or rating >= min_rating}
        expected.append(counted - taken)
        taken |= counted
    if not taken:
        with pytest.raises(DataError, match="no row has a rating of at least 3"):
            load(path, min_rating=min_rating)
        return
    found = load(path, min_rating=min_rating)
    assert [pairs(found, part) for part in Part] == expected


def test_a_short_lines_file_follows_its_siblings(folder):
    # Alone, the test file would be a table of user, item and rating.
    found = load(folder(train__txt="0 1 2 3\n1 4\n", test__txt="0 5 6\n1 7 8\n"))
    assert pairs(found, Part.TEST) == {(0, 5), (0, 6), (1, 7), (1, 8)}


def test_a_format_that_is_told_reads_any_suffix(folder):
    found = load(folder(train__base="1\t2\n", test__test="1\t3\n"), format="delimited")
    assert pairs(found, Part.TEST) == {(1, 3)}


def test_columns_hold_for_all_parts(folder):
    path = folder(train__csv="who,what\na,b\n", test__csv="what,who\nb,c\n")
    found = load(path, columns={"user": "who", "item": "what"})
    assert pairs(found, Part.TEST) == {("c", "b")}


def test_what_not_every_part_has_is_ignored_and_told(folder):
    path = folder(train__csv="user,item,rating,time\n1,2,5,9\n", test__csv="user,item\n1,3\n")
    found = load(path)
    assert found.interactions.times is None
    assert "ratings ignored: not every part has them" in found.interactions.facts
    assert "times ignored: not every part has them" in found.interactions.facts
    assert "train.csv: columns: user = 'user', item = 'item', rating = 'rating', time = 'time'" in (
        found.interactions.facts
    )
    with pytest.raises(DataError, match=r"test.csv: min_rating is 4, but there is no rating column"):
        load(path, min_rating=4)


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"train__csv": "1,2\n", "notes__md": ""}, ["no test file", "notes.md, train.csv"]),
        ({"test__csv": "1,2\n", "train__json": ""}, ["no train file", "test.csv, train.json", ".parquet"]),
        ({}, ["no train file", "no files"]),
        (
            {"train__csv": "1,2\n", "train__tsv": "1\t2\n", "test__csv": ""},
            ["train.csv and train.tsv", "train part"],
        ),
        (
            {"train__csv": "1,2\n", "test__csv": "1,2\n", "val__csv": "", "valid__csv": ""},
            ["val.csv and valid.csv could all be the valid part"],
        ),
    ],
)
def test_missing_and_doubtful_parts_are_errors(folder, files, parts):
    path = folder(**files)
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value).startswith(str(path))
    assert [part for part in parts if part not in str(error.value)] == []


def test_errors_name_the_file_of_the_part(folder):
    path = folder(train__csv="user,item\n1,2\n", test__csv="user,item\n1,\n")
    with pytest.raises(DataError, match=r"test.csv, line 2: column 'item' is empty"):
        load(path)


def test_an_archive_that_lies_there_is_left_alone(folder):
    path = folder(train__csv="user,item\n1,2\n", test__csv="user,item\n1,3\n")
    (path / "backup.zip").write_bytes(b"no archive")
    assert len(load(path).interactions) == 2
