"""Delimited text files: separators, headers, ids that survive, and errors that name the line."""

from __future__ import annotations

import csv
import datetime
import gzip
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pspns.data.formats import delimited
from pspns.data.formats.delimited import read
from pspns.data.gather import to_interactions
from pspns.data.interactions import is_plain_number
from pspns.data.series import plain_numbers
from pspns.data.table import Reading
from pspns.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="clicks.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def load(path, min_rating=None, **how):
    return to_interactions(read(path, Reading(**how)), min_rating)


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


def message(path, **how):
    with pytest.raises(DataError) as error:
        load(path, **how)
    assert str(error.value).startswith(str(path))
    return str(error.value)


IDS = st.one_of(
    st.sampled_from(["007", "7", "-7", "-0", "+7", "7.0", "1e3", "a b", " x", 'say "hi"', "a,b", "a\nb", "ünï", "NA"]),
    st.sampled_from([str(2**63 - 1), str(2**63), str(-(2**63)), "null", "nan", "a\tb", "a;b", "😀", "user", "\ufeff"]),
    st.integers(-(2**64), 2**64).map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5),
)
ROWS = st.lists(st.tuples(IDS, IDS), min_size=1, max_size=30)


@settings(deadline=None, max_examples=150)
@given(ROWS, st.randoms(use_true_random=False))
@example([("1", "a"), ("2", "b")], None)
@example([("1", "a"), ("02", "b")], None)
def test_no_id_changes_and_row_order_does_not_matter(rows, random):
    def round_trip(ordered):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "clicks.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("user", "item"), *ordered])
            return load(path)

    found = round_trip(rows)
    user_type, item_type = (int if all(map(is_plain_number, ids)) else str for ids in zip(*rows, strict=True))
    assert pairs(found) == {(user_type(user), item_type(item)) for user, item in rows}
    assert found.user_ids.tolist() == sorted(set(found.user_ids.tolist()), key=_expected_order)
    if random is not None:
        shuffled = random.sample(rows, len(rows))
        again = round_trip(shuffled)
        assert again.user_ids.tolist() == found.user_ids.tolist()
        assert again.users.tolist() == found.users.tolist()
        assert again.items.tolist() == found.items.tolist()


def _expected_order(value):
    return (0, int(value), "") if is_plain_number(str(value)) else (1, 0, value)


def test_numbers_become_int64_unless_one_is_written_oddly(write):
    plain = load(write("user,item\n10,1\n9,007\n"))
    assert plain.user_ids.dtype == "int64"
    assert plain.user_ids.tolist() == [9, 10]
    assert plain.item_ids.tolist() == ["1", "007"]


@pytest.mark.parametrize(
    ("name", "separator", "told"),
    [
        ("x.csv", ",", None),
        ("x.csv", ";", "semicolon"),
        ("x.csv", "\t", "tab"),
        ("x.tsv", "\t", None),
        ("x.inter", "\t", None),
        ("x.psv", "|", None),
        ("x.txt", " ", "blank"),
        ("x.txt", "|", "pipe"),
        ("x.dat", "::", "double colon"),
        ("x.data", "\t", "tab"),
    ],
)
def test_separators_are_found_and_told_where_not_obvious(write, name, separator, told):
    lines = [["user", "item", "rating"], ["a", "b", "4.5"], ["c", "d", "3"]]
    found = load(write("\n".join(separator.join(line) for line in lines), name))
    assert pairs(found) == {("a", "b"), ("c", "d")}
    assert (f"columns separated by {told} (guessed)" in found.facts) == (told is not None)
    assert any("separated" in fact for fact in found.facts) == (told is not None)


def test_the_separator_with_most_cells_wins_where_nothing_is_promised(write):
    # Cut at the blank of the date, each line has two cells as well.
    found = load(write("1\t2\t2020-01-01 10:00:00\n1\t3\t2020-01-02 10:00:00\n", "x.data"))
    assert pairs(found) == {(1, 2), (1, 3)}


def test_movielens_without_header(write):
    found = load(write("196\t242\t3\t881250949\n186\t302\t3\t891717742\n", "u.data"))
    assert pairs(found) == {(196, 242), (186, 302)}
    assert found.times.tolist() == [891717742.0, 881250949.0]
    assert "columns: user = 0, item = 1, rating = 2, time = 3" in found.facts
    assert any(fact.startswith("no header line") for fact in found.facts)


@pytest.mark.parametrize(
    ("third", "roles"),
    [
        ("5", "rating = 2, no time"),
        ("881250949", "no rating, time = 2"),
        ("2020-05-01", "no rating, time = 2"),
    ],
)
def test_a_third_column_without_header_is_a_rating_or_a_time(write, third, roles):
    found = load(write(f"1,2,{third}\n3,4,{third}\n"))
    assert f"columns: user = 0, item = 1, {roles}" in found.facts


def test_the_median_decides_about_the_third_column(write):
    # One odd value must not: 0 among times.
    found = load(write("1,2,0\n3,4,881250949\n5,6,881250949\n"))
    assert found.times.tolist() == [0.0, 881250949.0, 881250949.0]


def test_types_behind_names_are_taken_off(write):
    text = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t2\t3.0\t5.5\n"
    found = load(write(text, "x.inter"))
    assert pairs(found) == {(1, 2)}
    assert found.times.tolist() == [5.5]
    assert "columns: user = 'user_id', item = 'item_id', rating = 'rating', time = 'timestamp'" in found.facts


def test_asked_columns_make_the_first_line_a_header(write):
    found = load(write("when,sku,who\n5,a,b\n"), columns={"user": "who", "item": "sku", "time": "when"})
    assert pairs(found) == {("b", "a")}
    assert found.times.tolist() == [5.0]


def test_the_header_can_be_settled_by_hand(write):
    path = write("alice,book7\nbob,book8\n")
    assert "line 1: cannot tell whether 'alice', 'book7' is a header" in message(path)
    assert "--header yes" in message(path)
    assert len(load(path, header=False)) == 2
    assert pairs(load(path, header=True, columns={"user": 0, "item": 1})) == {("bob", "book8")}


def test_a_header_wins_over_numbers_below_it_only_when_told(write):
    path = write("1,2\n3,4\n")
    assert len(load(path)) == 2
    assert pairs(load(path, header=True, columns={"user": "1", "item": "2"})) == {(3, 4)}


def test_names_without_a_header_are_an_error(write):
    assert "there is no header with names; give positions" in message(write("1,2\n"), columns={"item": "sku"})


def test_unknown_columns_are_listed(write):
    path = write("who,what\na,b\n")
    assert "cannot tell which column is the item; columns: 'who', 'what'" in message(path, columns={"user": "who"})
    assert "did you mean 'what'" in message(path, columns={"user": "who", "item": "wat"})


def test_extra_columns_are_ignored_and_told_even_when_not_unique(write):
    found = load(write("x,user,x,item\n,a,\xff,b\n".encode("latin-1")))
    assert pairs(found) == {("a", "b")}
    assert "columns ignored: 'x', 'x'" in found.facts


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files(tmp_path, suffix):
    content = b"user,item\na,b\nc,d\n"
    path = tmp_path / f"clicks.csv{suffix}"
    packed = gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(packed)
    assert pairs(load(path)) == {("a", "b"), ("c", "d")}


def test_a_damaged_packed_file(write):
    assert "cannot be read" in message(write(b"no gzip at all", "x.csv.gz"))


def test_byte_order_mark_windows_line_ends_and_blank_lines(write):
    found = load(write("\ufeff\r\nuser,item\r\na,b\r\n\r\nc,d"))
    assert pairs(found) == {("a", "b"), ("c", "d")}


@pytest.mark.parametrize("note", ["some words", '"two\nlines, ""quoted"""'])
def test_many_rows_in_many_blocks(write, note):
    # More than one block of the parser, so that rows and quotes cut by a block's end are seen too.
    rows = [(n, n * 7 % 1000) for n in range(300_000)]
    path = write("user,item,note\n" + "".join(f"{user},{item},{note}\n" for user, item in rows))
    assert path.stat().st_size > 4 << 20
    found = load(path)
    assert found.user_ids.tolist() == list(range(300_000))
    assert found.item_ids[found.items].tolist() == [item for _, item in rows]


def test_ratings_leave_rows_out(write):
    found = load(write("user,item,stars\na,b,4\nc,d,3.5\n"), min_rating=4)
    assert pairs(found) == {("a", "b")}
    assert "no rating column" in message(write("user,item\na,b\n"), min_rating=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        ("2020-01-01 10:30:00", datetime.datetime(2020, 1, 1, 10, 30, tzinfo=datetime.UTC)),
        ("2020-01-01T10:30:00.25Z", datetime.datetime(2020, 1, 1, 10, 30, 0, 250000, tzinfo=datetime.UTC)),
        ("2020-01-01T10:30:00+02:00", datetime.datetime(2020, 1, 1, 8, 30, tzinfo=datetime.UTC)),
    ],
)
def test_iso_dates_become_seconds(write, text, expected):
    assert load(write(f"user,item,date\na,b,{text}\n")).times.tolist() == [expected.timestamp()]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("user,item\na,b\n,d\n", ["line 3", "column 'user' is empty"]),
        ("user,item\n\na,b\n\nc,\n", ["line 5", "column 'item' is empty"]),
        ('user,item\n"a\nb",b\nc,\n', ["line 4", "column 'item' is empty"]),
        ("1,2\n3,\n", ["line 2", "column 1 is empty"]),
        ("user,item,rating\na,b,4\nc,d,good\n", ["line 3", "column 'rating' is 'good'", "finite number"]),
        ("user,item,rating\na,b,nan\n", ["line 2", "column 'rating' is 'nan'"]),
        ("user,item,rating\na,b,\n", ["line 2", "column 'rating' is empty"]),
        ("user,item,time\na,b,5\nc,d,noon\n", ["line 3", "column 'time' is 'noon'", "expected a time"]),
        ("user,item,time\na,b,2020-01-01\nc,d,2020-02-30\n", ["line 3", "column 'time' is '2020-02-30'"]),
        ("user,item,time\na,b,2020-01-01\nc,d,05/06/2020\n", ["line 3", "'05/06/2020'"]),
        ("user,item,time\na,b,05/06/2020\n", ["line 2", "'05/06/2020'"]),
        ("user,item\na,b\nc,d,e\n", ["line 3", "3 columns, expected 2 as in line 1", "comma"]),
        ("user,item\na,b\nc\n", ["line 3", "1 column, expected 2"]),
        ("user,item,x\na,b,1\n\nc,d\n", ["line 4", "2 columns, expected 3"]),
        ('user,item\na,"b\nc,d\ne,f\n', ["line 2", "odd quotes"]),
        ('user,item\na,b\nc,"d"e\n', ["line 3", "odd quotes"]),
        ("user,item\na,b\nc,\xe9\n".encode("latin-1"), ["line 3", "0xe9 is not UTF-8"]),
        ("user,item\na,b\n".encode("utf-16"), ["is UTF-16, not UTF-8", "--encoding utf-16"]),
        ("user,item\na,b\n".encode("utf-16-le"), ["zero bytes", "not UTF-8"]),
        ("", ["empty"]),
        ("\n\r\n\n", ["empty"]),
        ("user,item\n", ["no row below the header"]),
        ("user,item", ["no row below the header"]),
        ("user\na\n", ["line 1", "'user' is a single column", "tab, comma, semicolon, pipe"]),
        ("1,2,3,4,5\n", ["5 columns and no header", "--columns user=0,item=1"]),
    ],
)
def test_malformed_files_name_file_line_and_column(write, content, parts):
    text = message(write(content))
    assert [part for part in parts if part not in text] == []


def test_a_ragged_row_far_down_is_found(write):
    lines = ["user,item,rating"] + [f"{n},{n},3" for n in range(1000)]
    lines[700] = "1,2"
    assert "line 701: 2 columns, expected 3" in message(write("\n".join(lines)))


def test_ids_are_numbers_only_where_nothing_is_lost(write):
    table = read(write("user,item\n1,007\n20,8\n"), Reading())
    (piece,) = table.pieces()
    assert piece.schema == {"user": pl.Int64, "item": pl.String}
    assert piece["user"].to_list() == [1, 20]
    assert piece["item"].to_list() == ["007", "8"]


@pytest.mark.parametrize("text", ["", "07", "+7", "-7", " 7", "7.0", "0x1F", "0xFFFFF", "٧", "12345678", "1e3", "7\0"])
def test_other_ways_to_write_a_number_stay_text(text):
    assert plain_numbers(pa.array(["1", text])) is None
    texts = pa.array([text, "0", "10", "9999999"])
    assert plain_numbers(texts.slice(1)).to_pylist() == [0, 10, 9_999_999]


class TestNumbersInBlocks:
    """Blocks of a few rows, so that a value stands in a later one than those that told its column's kind."""

    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch):
        monkeypatch.setattr(delimited, "LONGEST_LINE", 128)

    @staticmethod
    def content(*changes: tuple[int, str], header: str = "user,item,rating,time") -> str:
        lines = [header, *(f"{n},{n % 7},{n % 9 / 2},{1_000_000_000 + n}" for n in range(1, 101))]
        for line, text in changes:
            lines[line - 1] = text
        return "\n".join(lines) + "\n"

    def test_are_floats_as_long_as_they_can_be(self, write):
        pieces = list(read(write(self.content((60, "59,3, 2.5,\u20031000000059"))), Reading()).pieces())
        dtypes = [piece["time"].dtype for piece in pieces]
        assert dtypes[0] == pl.Float64
        assert dtypes[-1] == pl.String
        assert dtypes == sorted(dtypes, key=lambda dtype: dtype == pl.String)
        ratings = [float(value) for piece in pieces for value in piece["rating"]]
        assert ratings == [n % 9 / 2 for n in range(1, 59)] + [2.5] + [n % 9 / 2 for n in range(60, 101)]

    def test_text_and_floats_give_the_same_pairs(self, write):
        plain = load(write(self.content()))
        odd = load(write(self.content((60, f"59,{59 % 7},\u2003{59 % 9 / 2},1000000059 "))))
        assert odd.times.tolist() == plain.times.tolist() == [1_000_000_000 + n for n in range(1, 101)]
        assert odd.items.tolist() == plain.items.tolist()
        assert odd.facts == plain.facts

    @pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", "", "NA", "4,5", "1e999", "four"])
    def test_a_rating_that_is_none_is_shown_as_it_is_written(self, write, value):
        text = message(write(self.content((80, f'79,3,"{value}",1000000079'))))
        shown = repr(value) if value else "empty"
        assert f"line 80: column 'rating' is {shown}; expected a rating" in text

    def test_a_header_that_comes_again_far_down(self, write):
        text = message(write(self.content((70, "user,item,rating,time"))))
        assert "line 70: repeats the header" in text

    def test_a_header_of_numbers_that_comes_again(self, write):
        content = self.content((70, "user,item,3,time"), header="user,item,3,time")
        text = message(write(content), header=True, columns={"rating": "3"})
        assert "line 70: repeats the header" in text

    def test_a_ragged_row_far_down(self, write):
        assert "line 90: 2 columns, expected 4" in message(write(self.content((90, "1,2"))))

    def test_a_date_among_numbers_far_down(self, write):
        text = message(write(self.content((75, "74,3,4,2024-05-31"))))
        assert "line 75: column 'time' is '2024-05-31'; expected a time" in text

    def test_times_of_a_given_form_stay_text(self, write):
        content = "user,item,time\n" + "".join(f"{n},3,010220{n % 90 + 10}\n" for n in range(50))
        assert {piece["time"].dtype for piece in read(write(content), Reading(time_format="%d%m%Y")).pieces()} == {
            pl.String
        }
        times = load(write(content), time_format="%d%m%Y").times
        assert np.diff(times).min() > 360 * 86_400
