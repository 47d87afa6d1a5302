"""`load`: the one door for paths, names, frames and matrices."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse

from pspns.components import part_names
from pspns.data import load as load_module
from pspns.data.files import find_format, format_names
from pspns.data.interactions import Interactions
from pspns.data.load import load
from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError, SettingsError


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


@pytest.fixture
def csv_file(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,item,rating\na,b,5\nc,d,1\n")
    return path


def test_a_file_by_text_and_by_path(csv_file):
    assert pairs(load(csv_file)) == pairs(load(str(csv_file))) == {("a", "b"), ("c", "d")}
    assert pairs(load(csv_file, min_rating=2)) == {("a", "b")}


def test_options_reach_the_reader(tmp_path):
    path = tmp_path / "x.strange"
    path.write_text("a;b\nc;d\n")
    found = load(path, format="delimited", header=False, columns={"user": 1, "item": 0})
    assert pairs(found) == {("b", "a"), ("d", "c")}


def test_a_folder(tmp_path):
    (tmp_path / "train.txt").write_text("0 1 2\n1 2\n")
    (tmp_path / "test.txt").write_text("0 3\n")
    found = load(tmp_path)
    assert isinstance(found, GivenSplit)
    assert (found.parts == Part.TEST).sum() == 1


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_frames(kind):
    found = load(kind({"who": [1], "item": ["x"]}), columns={"user": "who"})
    assert pairs(found) == {(1, "x")}


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_matrix])
def test_matrices(kind):
    assert pairs(load(kind(np.array([[0, 2], [1, 0]])))) == {(0, 1), (1, 0)}


def test_loaded_data_come_back_as_they_are():
    loaded = Interactions.from_arrays([1], [2])
    given = GivenSplit(loaded, np.zeros(1, np.int8), "here")
    assert load(loaded) is loaded
    assert load(given) is given


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (Interactions.from_arrays([1], [2]), {"min_rating": 3}, "min_rating cannot be set for Interactions"),
        (Interactions.from_arrays([1], [2]), {"format": "lines"}, "format cannot be set"),
        (
            sparse.csr_array([[1]]),
            {"columns": {}, "header": True},
            "columns and header cannot be set for a matrix",
        ),
        (pl.DataFrame({"user": [1], "item": [2]}), {"header": False}, "header cannot be set for a frame"),
    ],
)
def test_options_that_do_not_apply_are_errors(data, options, expected):
    with pytest.raises(SettingsError, match=expected):
        load(data, **options)


def test_things_that_are_no_data():
    with pytest.raises(DataError, match=r"cannot read data from list; expected a path"):
        load([(1, 2)])


class KnownData:
    def load(self, folder):
        return Interactions.from_arrays([str(folder)], ["item"])


@pytest.fixture
def catalogue(monkeypatch):
    monkeypatch.delenv("PSPNS_DATA", raising=False)
    monkeypatch.setattr(load_module, "part_names", lambda kind: ["ml-100k", "toy-set"])
    monkeypatch.setattr(load_module, "find_part", lambda kind, name: {"toy-set": KnownData}[name])


@pytest.mark.usefixtures("catalogue")
class TestNames:
    def test_a_known_data_set_gets_the_data_folder(self, tmp_path, monkeypatch):
        assert load("toy-set").user_ids.tolist() == ["None"]
        monkeypatch.setenv("PSPNS_DATA", "from-environment")
        assert load("toy-set").user_ids.tolist() == ["from-environment"]
        assert load("toy-set", folder=tmp_path).user_ids.tolist() == [str(tmp_path)]

    def test_options_of_files_do_not_apply(self):
        with pytest.raises(SettingsError, match=r"columns cannot be set for the known data set 'toy-set'"):
            load("toy-set", columns={"user": 0})

    def test_an_existing_path_wins(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "toy-set").mkdir()
        with pytest.raises(DataError, match=r"no train file"):
            load("toy-set")

    def test_files_and_folders_of_the_data_folder(self, tmp_path, csv_file):
        assert len(load("clicks", folder=tmp_path)) == 2
        shop = tmp_path / "shop"
        shop.mkdir()
        (shop / "train.csv").write_text("1,2\n")
        (shop / "test.csv").write_text("1,3\n")
        assert isinstance(load("shop", folder=tmp_path), GivenSplit)

    def test_two_files_of_one_name_are_an_error(self, tmp_path, csv_file):
        (tmp_path / "clicks.tsv.gz").write_bytes(b"")
        with pytest.raises(DataError, match=r"'clicks' could be .*clicks.csv or .*clicks.tsv.gz; give the path"):
            load("clicks", folder=tmp_path)

    def test_unknown_names_list_what_there_is_and_the_nearest(self, tmp_path, csv_file):
        with pytest.raises(DataError) as error:
            load("ml-100", folder=tmp_path)
        assert "no file, folder or data set 'ml-100'" in str(error.value)
        assert str(tmp_path) in str(error.value)
        assert "clicks, ml-100k, toy-set (did you mean 'ml-100k'?)" in str(error.value)


def test_a_data_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(DataError, match=r"in the data folder .*nowhere, which does not exist; known data sets"):
        load("no-such-set-anywhere", folder=tmp_path / "nowhere")


def test_the_real_catalogue_is_listed():
    with pytest.raises(DataError) as error:
        load("no-such-set-anywhere")
    assert ", ".join(part_names("datasets")) in str(error.value)


def test_formats_by_suffix_and_content(tmp_path):
    def found(name, content="1 2\n3 4\n"):
        (tmp_path / name).write_text(content)
        return find_format(tmp_path / name)

    assert found("a.parquet") == "parquet"
    assert found("A.CSV") == "delimited"
    assert found("a.tsv") == "delimited"
    assert found("pairs.txt") == "delimited"
    assert found("lists.txt", "1 2 3\n3 4\n") == "lines"
    assert found("tabs.txt", "1\tone two\n3\tfour\n") == "delimited"


def test_an_unknown_suffix_or_format_is_an_error(tmp_path, csv_file):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DataError, match=r"x.json: cannot tell the format from the suffix '.json'.*delimited, lines"):
        load(tmp_path / "x.json")
    with pytest.raises(SettingsError, match=r"no format named 'parket'.*did you mean 'parquet'"):
        load(csv_file, format="parket")


def test_format_names_are_the_files_of_the_folder():
    assert format_names() == ["delimited", "lines", "npz", "parquet"]


@pytest.mark.parametrize("name", ["", "~nobody-of-this-name/x.csv"])
def test_names_that_are_none(name):
    with pytest.raises(DataError, match=r"expected a path|give the path in full"):
        load(name)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"min_rating": "4"}, "min_rating must be a finite number, got '4'"),
        ({"min_rating": float("nan")}, "min_rating must be a finite number"),
        ({"columns": ["user", "item"]}, "columns must be roles with their columns"),
        ({"columns": {"user": 0.5}}, "columns: user must be a column's name or its position, got 0.5"),
    ],
)
def test_options_of_the_wrong_kind(csv_file, options, complaint):
    with pytest.raises(SettingsError, match=complaint):
        load(csv_file, **options)


@pytest.mark.parametrize(
    ("matrix", "complaint"),
    [
        (sparse.csr_array([[np.nan, 1.0], [0, 1]]), "holds nan in row 0, column 0"),
        (sparse.coo_array(np.array([1.0, 0, 2])), "has 1 dimension; expected users × items"),
    ],
)
def test_matrices_that_cannot_be(matrix, complaint):
    with pytest.raises(DataError, match=complaint):
        load(matrix)


def test_large_decimals_are_numbers(tmp_path):
    ratings = pa.array([decimal.Decimal("4.5"), decimal.Decimal("1.25")], pa.decimal256(50, 2))
    table = pa.table({"user": [1, 2], "item": [3, 4], "rating": ratings})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert pairs(load(table, min_rating=3)) == pairs(load(tmp_path / "x.parquet", min_rating=3)) == {(1, 3)}


def test_a_csv_of_a_country_with_decimal_commas(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user;item;rating\n1;2;4,5\n1;3;2,0\n")
    with pytest.raises(DataError, match=r"line 2: column 'rating' is '4,5'; .* with a point before its decimals"):
        load(path)
