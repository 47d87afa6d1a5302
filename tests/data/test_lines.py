"""Lines of a user and their items."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pspns
from pspns.data.formats._text import TextFile
from pspns.data.formats.lines import looks_like_lines, read
from pspns.data.gather import to_interactions
from pspns.data.table import Reading
from pspns.errors import DataError, SettingsError


def load(path, min_rating=None, **how):
    return to_interactions(read(path, Reading(**how)), min_rating)


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def test_each_line_is_a_user_and_their_items(write):
    found = load(write("10 3 1\n9 2\n"))
    assert pairs(found) == {(10, 3), (10, 1), (9, 2)}
    assert found.user_ids.tolist() == [9, 10]
    assert found.facts == ("each line read as a user followed by their items",)


def test_blanks_tabs_line_ends_and_blank_lines_do_not_matter(write):
    assert pairs(load(write("\ufeff0 5 \r\n\r\n1\t6  7\r\n   \n2 8"))) == {(0, 5), (1, 6), (1, 7), (2, 8)}


def test_users_without_items_are_counted(write):
    found = load(write("0 5\n1\n2 \n3 5\n"))
    assert found.user_ids.tolist() == [0, 3]
    assert "2 lines with a user but no item" in found.facts


def test_repeated_items_and_users_are_merged(write):
    found = load(write("0 5 5\n1 5\n0 5 6\n"))
    assert pairs(found) == {(0, 5), (0, 6), (1, 5)}
    assert "2 repeated rows merged" in found.facts


def test_odd_ids_survive(write):
    assert pairs(load(write('007 "a ü,b\n8 9\n'))) == {("007", '"a'), ("007", "ü,b"), ("8", "9")}


WORD = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=4)


@settings(deadline=None, max_examples=80)
@given(lines=st.lists(st.lists(WORD, min_size=1, max_size=6), min_size=1, max_size=10))
def test_the_same_pairs_as_a_loop_over_lines(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "x.txt"
    path.write_text("\n".join(" ".join(words) for words in lines), encoding="utf-8")
    expected = {(words[0], item) for words in lines for item in words[1:]}
    if not expected:
        with pytest.raises(DataError, match="no line has an item"):
            load(path)
        return
    assert {(str(user), str(item)) for user, item in pairs(load(path))} == expected


def test_a_packed_file(write):
    assert pairs(load(write(gzip.compress(b"0 5 6\n"), "train.txt.gz"))) == {(0, 5), (0, 6)}


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        ("0\n1\n", "no line has an item"),
        (b"0 5\n1 \xff\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_malformed_files(write, content, part):
    path = write(content)
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value).startswith(str(path))
    assert part in str(error.value)


def test_options_of_tables_do_not_apply(write):
    path = write("0 1\n")
    with pytest.raises(SettingsError, match="leave columns, header and separator out"):
        load(path, columns={"user": 0})
    with pytest.raises(SettingsError, match="leave columns, header and separator out"):
        load(path, header=False)
    with pytest.raises(DataError, match="min_rating is 4, but there is no rating column"):
        load(path, min_rating=4)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0 1 2\n1 3\n", True),
        ("0\n1 3\n", True),
        ("0 1 \n1 3 \n", True),  # a blank at the end, as in published files
        ("0 1\n1 3\n", False),
        ("0 1 2\n1 3 4\n", False),
        ("0 1 5 99\n" * 99 + "0 1 5\n", False),  # a table with a broken row, to be refused as such
        ("", False),
        ("1 100 4 \n1 101 5 \n", False),  # a blank at the end, but a table
        ("# Directed graph\n# From To\n0\t4\n0\t5\n", False),
        ("user items\n0 1 2\n1 3\n", False),
        ("u0 m0 m1\nu1 m0\n", False),  # words are never guessed to be ids
        ("0\tA title\n1\tAnother long title\n", False),
        ("0,1,two words\n1,2,three more words\n", False),
    ],
)
def test_looks_like_lines(write, content, expected):
    assert looks_like_lines(TextFile(write(content))) is expected


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("# Directed graph\n# From\tTo\n0\t4\n0\t5\n", "line 1: begins with '#', as a comment does"),
        ("% bip unweighted\n1 2\n1 3\n", "line 1: begins with '%'"),
        ("u0 m0 m1\nu1 m0\n", "set header|set format to 'lines'|columns"),
    ],
)
def test_what_only_looks_alike_is_refused_by_load(write, content, complaint):
    with pytest.raises(DataError, match=complaint):
        pspns.load(write(content))


def test_words_are_read_where_the_format_is_told(write):
    assert len(pspns.load(write("u0 m0 m1\nu1 m0\n"), format="lines")) == 3
