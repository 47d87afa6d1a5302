"""Files spoilt by hand, each in its own way: one error that names file, place, fault and remedy, or the right pairs."""

# ruff: noqa: E501 (a case is a line of a table, however long)

from __future__ import annotations

import codecs
import datetime
import decimal
import gzip
import io
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from guards import guarded
from pyarrow import parquet
from scipy import sparse

import pspns
from pspns.data.split import Part
from pspns.errors import DataError, PspnsError, SettingsError

pytestmark = pytest.mark.promise("malformed-files")

Pairs = set[tuple[Any, Any]]


@dataclass(frozen=True)
class File:
    """What is given, and what must come of it."""

    id: str
    name: str
    content: bytes
    words: tuple[str, ...] = ()  # of the message, in this order
    pairs: Pairs = field(default_factory=set)  # where the file is to be read
    times: list[float] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def bad(id: str, name: str, content: str | bytes, *words: str, **options: Any) -> File:
    return File(id, name, _bytes(content), words=words, options=options)


def fine(
    id: str, name: str, content: str | bytes, pairs: Pairs, *, times: list[float] | None = None, **options: Any
) -> File:
    return File(id, name, _bytes(content), pairs=pairs, times=times, options=options)


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def written(write: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zipped(*members: tuple[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    def write(file: Any) -> None:
        with zipfile.ZipFile(file, "w", kind) as archive:
            for name, content in members:
                archive.writestr(name, content)

    return written(write)


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place:][1:]


def zst(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def table(**columns: Any) -> bytes:
    return written(lambda file: parquet.write_table(pa.table(columns), file))


def npz(**arrays: Any) -> bytes:
    return written(lambda file: np.savez(file, **arrays))


def csr(**changes: Any) -> bytes:
    arrays = {"indices": [1, 0], "indptr": [0, 1, 2], "format": b"csr", "shape": (2, 2), "data": [1.0, 1.0]}
    return npz(**{**arrays, **changes})


def npy(header: str, content: bytes = b"") -> bytes:
    """An array whose header may lie."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


TWO = "user,item\na,b\nc,d\n"
PAIRS = {("a", "b"), ("c", "d")}
LONG = "x" * (1 << 20)
SAME_NAMES = written(lambda file: parquet.write_table(pa.table([["a"], ["b"], ["c"]], ["user", "user", "item"]), file))
GOOD_PARQUET = table(user=["a", "c"], item=["b", "d"])
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
MATRIX = written(lambda file: sparse.save_npz(file, sparse.csr_array(np.eye(3)), compressed=False))
LOCKED = bytearray(zipped(("x.csv", TWO.encode())))
LOCKED[6] |= 1  # the bit that says "encrypted", in the file's header and in the directory
LOCKED[LOCKED.index(b"PK\x01\x02") + 8] |= 1


def claiming_rows(content: bytes, number: int) -> bytes:
    """A Parquet file whose footer tells another number of rows than the file has (both below 64)."""
    n_rows = parquet.read_metadata(io.BytesIO(content)).num_rows
    for place in range(len(content)):
        if content[place] == 2 * n_rows:  # as its footer writes numbers
            changed = content[:place] + bytes([2 * number]) + content[place + 1 :]
            try:
                metadata = parquet.read_metadata(io.BytesIO(changed))
            except (OSError, pa.ArrowException):
                continue
            if metadata.num_rows == number:
                return changed
    raise AssertionError("its place was not found")


REFUSED_TEXT = [
    # nothing to read
    bad("no-bytes", "x.csv", "", "the file is empty; expected lines with a user and an item"),
    bad("a-mark-alone", "x.csv", codecs.BOM_UTF8, "the file is empty"),
    bad("blank-lines", "x.csv", "\n\r\n\n", "the file is empty"),
    bad("blanks", "x.csv", "   \n \t \n", "the file is empty"),
    bad("many-blank-lines", "x.csv", "\n" * 300 + TWO, "the first 200 lines are blank; expected"),
    bad("a-header-alone", "x.csv", "user,item\n", "no row below the header; expected at least one interaction"),
    bad("a-header-and-blank-lines", "x.tsv", "user\titem\r\n\r\n\r\n", "no row below the header"),
    bad("separators-alone", "x.csv", ",,\n,,\n", ", line 1: cannot tell whether '', '', '' is a header; set header"),
    # encodings
    bad("utf-16", "x.csv", TWO.encode("utf-16"), "is UTF-16, not UTF-8; set encoding to utf-16 (on", "--encoding utf-16"),
    bad("utf-16-be", "x.csv", codecs.BOM_UTF16_BE + TWO.encode("utf-16-be"), "is UTF-16, not UTF-8; set encoding"),
    bad("utf-16-unmarked", "x.csv", TWO.encode("utf-16-le"), ", line 1: has zero bytes", "set encoding if it is UTF-16"),
    bad("utf-16-unmarked-lines", "x.txt", "1 2 3\n4 5\n".encode("utf-16-be"), ", line 1: column user holds a zero byte", format="lines"),
    bad("utf-32", "x.csv", TWO.encode("utf-32"), "is UTF-32, not UTF-8; set encoding to utf-32"),
    bad("utf-32-unmarked", "x.csv", TWO.encode("utf-32-le"), ", line 1: has zero bytes, so the file is not UTF-8"),
    bad("latin-1", "x.csv", "user,item\na,b\nc,\xe9\n".encode("latin-1"), ", line 3: byte 0xe9 is not UTF-8", "latin-1"),
    bad("latin-1-deep", "x.csv", b"user,item\n" + b"a,b\n" * 5000 + b"c,\xe9\n", ", line 5,002: byte 0xe9 is not"),
    bad("latin-1-in-a-name", "x.csv", b"us\xe9er,item\na,b\n", ", line 1: byte 0xe9 is not UTF-8; expected"),
    bad("latin-1-lines", "x.txt", b"0 1 2\n1 \xe9\n", ", line 2: byte 0xe9 is not UTF-8; expected a UTF-8 file", format="lines"),
    bad("overlong", "x.csv", b"user,item\na,b\nc,\xc0\xaf\n", ", line 3: byte 0xc0 is not UTF-8"),
    bad("surrogates", "x.csv", b"user,item\na,\xed\xa0\x80\n", ", line 2: byte 0xed is not UTF-8"),
    bad("half-a-letter-at-the-end", "x.csv", b"user,item\na,b\nc,\xe2\x82", ", line 3: byte 0xe2 is not UTF-8"),
    bad("not-the-encoding-told", "x.csv", b"\xff\xff\xff", "is not utf-8", "set encoding", encoding="utf-8"),
    bad("encoding-of-no-text", "x.csv", TWO, "no encoding named 'hex'; expected one that Python knows", encoding="hex"),
    bad("no-such-encoding", "x.csv", TWO, "no encoding named 'klingon'; expected", encoding="klingon"),
    # zero bytes
    bad("zero-byte", "x.csv", "user,item\na,\0b\n", ", line 2: has zero bytes, so the file is not UTF-8 text"),
    bad("zero-byte-deep", "x.csv", "user,item\n" + "a,b\n" * 500 + "c,d\0\n", ", line 502: column 'item' holds a zero byte"),
    bad("zeros-at-the-end", "x.csv", "user,item\n" + "a,b\n" * 500 + "\0" * 4096, ", line 502: 1 column, expected 2"),
    bad("zero-byte-in-lines", "x.txt", "1 2 3\n4 5\0\n", ", line 2: column item holds a zero byte; expected an id", format="lines"),
    # rows that do not fit
    bad("short-row", "x.csv", "user,item\na,b\nc\n", ", line 3: 1 column, expected 2 as in line 1 (separator: comma)"),
    bad("long-row", "x.csv", "user,item\na,b\nc,d,e\n", ", line 3: 3 columns, expected 2", "mend the line"),
    bad("short-row-unended", "x.csv", "user,item,rating\na,b,1\nc,d", ", line 3: 2 columns, expected 3 as in line 1"),
    bad("short-row-after-blank-lines", "x.csv", "\nuser,item\n\na,b\n\nc\n", ", line 6: 1 column, expected 2 as in line 2"),
    bad("short-row-deep", "x.csv", "user,item\n" + "a,b\n" * 70_000 + "c\n", ", line 70,002: 1 column, expected 2"),
    bad("all-longer-than-the-header", "x.csv", "user,item\na,b,c\nd,e,f\n", ", line 2: 3 columns, expected 2"),
    bad("header-of-one-column", "x.csv", "user\na,b\n", ", line 1: 'user' is a single column; expected two", "set separator"),
    bad("one-column", "x.csv", "user\na\nb\n", ", line 1: 'user' is a single column; expected two or more"),
    bad("short-row-tsv", "x.tsv", "user\titem\na\tb\nc\n", ", line 3: 1 column, expected 2 as in line 1 (separator: tab)"),
    bad("short-row-psv", "x.psv", "user|item\na|b\nc\n", ", line 3: 1 column, expected 2", "(separator: pipe)"),
    bad("short-row-colons", "x.dat", "1::2::3\n4::5\n", ", line 2: 2 columns, expected 3", "(separator: double colon)"),
    bad("control-character-in-colons", "x.dat", "1::2\n3\x1f4\n", ", line 2: holds the control character 0x1f", "leave it"),
    bad("five-columns-unnamed", "x.csv", "1,2,3,4,5\n", ": 5 columns and no header; expected two to four", "--columns"),
    bad("header-again", "x.csv", "user,item\na,b\nuser,item\nc,d\n", ", line 3: repeats the header; leave that line out"),
    bad("header-again-marked", "x.csv", f"{TWO}\ufeff{TWO}", ", line 4: repeats the header; leave that line out"),
    # columns
    bad("user-twice", "x.csv", "user,user,item\na,b,c\n", ": columns 'user' and 'user' could all be the user. Set columns"),
    bad("two-users", "x.csv", "user_id,UserID,item\na,b,c\n", ": columns 'user_id' and 'UserID' could all be the user"),
    bad("no-item", "x.csv", "user,colour\na,b\n", ": cannot tell which column is the item; columns: 'user', 'colour'. Set"),
    bad("words-without-a-header", "x.csv", "alice,pen\nbob,ink\n", ", line 1: cannot tell whether 'alice', 'pen' is a header"),
    bad("asked-for-twice", "x.csv", TWO, ": column 'user' cannot be user and item", columns={"user": "user", "item": 0}),
    bad("asked-for-in-vain", "x.csv", TWO, ": no column 'usr'", "did you mean 'user'?", columns={"user": "usr"}),
    bad("no-such-position", "x.csv", TWO, ": no column at position 7", "positions 0 to 1", columns={"user": 7}),
    bad("no-such-role", "x.csv", TWO, "no column role named 'usr'", "did you mean 'user'?", columns={"usr": "user"}),
    # quotes
    bad("quote-unclosed", "x.csv", 'user,item\na,b\nc,"d\n', ", line 3: odd quotes", 'begins with " must end with it'),
    bad("quote-unclosed-in-the-header", "x.csv", '"user,item\na,b\n', ", line 1: odd quotes"),
    bad("quote-unclosed-deep", "x.csv", "user,item\n" + "a,b\n" * 300 + 'c,"d\n' + "e,f\n" * 300, ", line 302: odd quotes"),
    bad("quote-closed-early", "x.csv", 'user,item\na,"b"c\n', ", line 2: odd quotes", "is written twice"),
    bad("quoted-nothing", "x.csv", 'user,item\na,""\n', ", line 2: column 'item' is empty; expected an id in every row"),
    # sizes
    bad("id-of-1-MB", "x.csv", f"user,item\na,b\n{LONG},c\n", ", line 3: column 'user' is 1,048,576 characters long; expected"),
    bad("id-of-5000", "x.txt", f"1 2 3\n4 {'x' * 5000}\n", ", line 2: column item is 5,000 characters long; expected", format="lines"),
    bad("line-of-5-MB", "x.csv", f"user,item,note\na,b,{LONG * 5}\n", ", line 2: is longer than 4 MiB; expected a text file"),
    bad("line-of-5-MB-in-lines", "x.txt", f"1 2 3\n4 {'5 ' * (5 << 19)}\n", ", line 2: is longer than 4 MiB"),
    bad("row-of-11-MB", "x.csv", "user,item,note\na,b," + "€" * (7 << 19), ", line 2: the row is 11,010,050 bytes long"),
    bad("cell-of-5-MB", "x.csv", 'user,item,note\na,b,"' + "a line\n" * 800_000, ", line 2: odd quotes (field larger than"),
    # values
    bad("user-missing", "x.csv", "user,item\na,b\n,d\n", ", line 3: column 'user' is empty; expected an id in every row"),
    bad("item-missing-unnamed", "x.csv", "1,2\n3,\n", ", line 2: column 1 is empty; expected an id in every row"),
    *[
        bad(f"rating-{name}", "x.csv", f'user,item,rating\na,b,4\nc,d,"{text}"\n', f", line 3: column 'rating' is {shown}")
        for name, text, shown in [
            ("nan", "NaN", "'NaN'; expected a rating, a finite number"),
            ("infinite", "-inf", "'-inf'; expected a rating, a finite number"),
            ("too-large", "1e999", "'1e999'; expected a rating, a finite number"),
            ("arabic", "٣", "'٣'; expected a rating"),
            ("empty", "", "empty; expected a rating"),
            ("word", "good", "'good'; expected a rating"),
            ("comma", "3,5", "'3,5'; expected a rating"),
            ("underscore", "1_000", "'1_000'; expected a rating"),
            ("hexadecimal", "0x10", "'0x10'; expected a rating"),
            ("of-1-MB", LONG, "'xxxx"),
        ]
    ],
    *[
        bad(f"time-{name}", "x.csv", f"user,item,time\na,b,{first}\nc,d,{text}\n", f", line 3: column 'time' is {shown}")
        for name, first, text, shown in [
            ("nan", "5", "NaN", "'NaN'; expected a time: in all rows a number"),
            ("infinite", "5", "1e400", "'1e400'; expected a time"),
            ("empty", "5", "", "empty; expected a time"),
            ("of-the-year-99999", "2020-01-01", "99999-01-01", "'99999-01-01'; expected a time"),
            ("of-no-month", "2020-01-01", "2020-13-01", "'2020-13-01'; expected a time"),
            ("of-no-hour", "2020-01-01", "2020-01-01 25:00:00", "'2020-01-01 25:00:00'; expected a time"),
            ("number-among-dates", "2020-01-01", "1577836800", "'1577836800'; expected a time"),
            ("other-form", "2020-01-01", "31/12/2020", "'31/12/2020'; expected a time"),
        ]
    ],
    bad("date-among-numbers", "x.csv", "user,item,time\na,b,5\nc,d,2020-01-01\n", ", line 2: column 'time' is '5'; expected"),
    bad("time-format-not-met", "x.csv", "user,item,time\na,b,5\n", "expected a time written as time_format says: %d/%m/%Y",
        time_format="%d/%m/%Y"),
    bad("time-format-that-is-none", "x.csv", "user,item,time\na,b,5\n", "time_format cannot be '%H'", time_format="%H"),
    bad("no-rating-high-enough", "x.csv", "user,item,rating\na,b,3\n", ": no row has a rating of at least 4", "lower min_rating",
        min_rating=4),
    bad("no-rating-at-all", "x.csv", TWO, ": min_rating is 4, but there is no rating column", min_rating=4),
]  # fmt: skip

REFUSED_RECBOLE = [
    bad("inter-name-without-type", "x.inter", "user_id:token\titem_id\n1\t2\n", ", line 1: 'item_id' is no column of a RecBole"),
    bad("inter-unknown-type", "x.inter", "user_id:token\titem_id:int\n1\t2\n", "'item_id:int' is no column", "user_id:token"),
    bad("inter-type-without-name", "x.inter", "user_id:token\t:token\n1\t2\n", ", line 1: ':token' is no column of a RecBole"),
    bad("inter-one-column", "x.inter", "user_id:token\n1\n", ", line 1: 'user_id:token' is a single column; expected two"),
    bad("inter-no-item", "x.inter", "user_id:token\trating:float\n1\t2\n", ": cannot tell which column is the item"),
    bad("inter-bad-float", "x.inter", "user_id:token\titem_id:token\trating:float\n1\t2\tx\n", ", line 2: column 'rating' is 'x'"),
    bad("inter-short-row", "x.inter", "user_id:token\titem_id:token\n1\t2\n3\n", ", line 3: 1 column, expected 2"),
    bad("inter-header-again", "x.inter", 2 * "user_id:token\titem_id:token\n1\t2\n", ", line 3: repeats the header"),
    bad("rating-file-of-one-column", "x.rating", "1\n2\n", ", line 1: '1' is a single column; expected two or more"),
    bad("rating-file-ragged", "x.rating", "1\t2\t3\t4\n5\t6\t7\n", ", line 2: 3 columns, expected 4 as in line 1"),
    bad("rating-file-of-five", "x.rating", "1\t2\t3\t4\t5\n", ": 5 columns and no header; expected two to four"),
]  # fmt: skip

REFUSED_LINES = [
    bad("lines-empty", "x.txt", " \n\n", "the file is empty; expected lines of a user", format="lines"),
    bad("lines-of-users-alone", "x.txt", "1\n2\n3\n", ": no line has an item behind its user; expected", format="lines"),
    bad("lines-with-columns", "x.txt", "1 2 3\n4 5\n", "have no columns; leave columns, header", format="lines", header=True),
]  # fmt: skip

REFUSED_PARQUET = [
    bad("parquet-empty", "x.parquet", b"", ": not a Parquet file, or a damaged one", "get it or write it again"),
    bad("parquet-cut-footer", "x.parquet", GOOD_PARQUET[:-3], ": not a Parquet file, or a damaged one"),
    bad("parquet-cut-in-the-middle", "x.parquet", GOOD_PARQUET[: len(GOOD_PARQUET) // 2], ": not a Parquet file, or a damaged"),
    bad("parquet-cut-begin", "x.parquet", GOOD_PARQUET[40:], ": not a Parquet file, or a damaged one"),
    bad("parquet-magic-flipped", "x.parquet", flipped(GOOD_PARQUET, -1), ": not a Parquet file, or a damaged one"),
    bad("parquet-footer-length", "x.parquet", GOOD_PARQUET[:-8] + b"\xff\xff\xff\x7fPAR1", ": not a Parquet file, or a damaged"),
    bad("parquet-magic-alone", "x.parquet", b"PAR1PAR1", ": not a Parquet file, or a damaged one"),
    bad("parquet-backwards", "x.parquet", GOOD_PARQUET[::-1], ": not a Parquet file, or a damaged one"),
    bad("parquet-encrypted", "x.parquet", b"PARE" + GOOD_PARQUET[4:-4] + b"PARE", ": not a Parquet file", "encrypted"),
    bad("parquet-is-csv", "x.parquet", TWO, ": not a Parquet file, or a damaged one"),
    bad("parquet-is-gzip", "x.parquet", gzip.compress(GOOD_PARQUET), ": not a Parquet file, or a damaged one"),
    bad("parquet-of-no-rows", "x.parquet", table(user=pa.array([], pa.string()), item=pa.array([], pa.int64())), "no rows; expected"),
    bad("parquet-of-no-columns", "x.parquet", table(), ": there are no columns; expected one for the user and one for the item"),
    bad("parquet-claims-more-rows", "x.parquet", claiming_rows(GOOD_PARQUET, 3), ": claims 3 rows and holds 2; write it again"),
    bad("parquet-claims-fewer-rows", "x.parquet", claiming_rows(GOOD_PARQUET, 1), ": claims 1 rows and holds 2; write it"),
    bad("parquet-not-utf-8", "x.parquet", table(user=NOT_UTF8, item=[1]), "damaged one", "Invalid UTF8"),
    bad("parquet-time-not-utf-8", "x.parquet", table(user=[1], item=[1], time=NOT_UTF8), "damaged one", "Invalid UTF8"),
    bad("parquet-user-twice", "x.parquet", SAME_NAMES, ": columns 'user' and 'user' could all be the user", "position"),
    bad("parquet-user-twice-by-name", "x.parquet", SAME_NAMES, ": 2 columns are named 'user'", "position", columns={"user": "user"}),
    bad("parquet-other-names", "x.parquet", table(who=[1], what=[2]), ": cannot tell which column is the user and the item"),
    bad("parquet-with-a-header", "x.parquet", GOOD_PARQUET, "header cannot be set for a Parquet file", header=True),
    *[
        bad(f"parquet-ids-{name}", "x.parquet", table(user=values, item=[1, 2]), words)
        for name, values, words in [
            ("null", ["a", None], ", row 2: column 'user' is empty; expected an id in every row"),
            ("all-null", [None, None], ", row 1: column 'user' is empty; expected an id in every row"),
            ("empty", ["a", ""], ", row 2: column 'user' is empty; expected an id in every row"),
            ("with-zero-byte", ["a", "b\0"], ", row 2: column 'user' holds a zero byte"),
            ("of-1-MB", ["a", LONG], ", row 2: column 'user' is 1,048,576 characters long; expected an id of at most"),
            ("float", [1.0, 2.0], ": column 'user' holds Float64; ids must be whole numbers or text"),
            ("nan", [1.0, float("nan")], ": column 'user' holds Float64; ids must be whole numbers or text. Missing"),
            ("list", [[1], [2]], ": column 'user' holds List(Int64); ids must be whole numbers or text"),
            ("struct", [{"id": 1}, {"id": 2}], ": column 'user' holds Struct({'id': Int64}); ids must be"),
            ("decimal", [decimal.Decimal("1.5")] * 2, ": column 'user' holds Decimal"),
            ("bytes", [b"a", b"b"], ": column 'user' holds Binary; ids must be whole numbers or text"),
            ("yes-and-no", [True, False], ": column 'user' holds Boolean; ids must be whole numbers or text"),
            ("date", [datetime.date(2020, 1, 1)] * 2, ": column 'user' holds Date; ids must be whole numbers or text"),
        ]
    ],
    *[
        bad(f"parquet-{role}-{name}", "x.parquet", table(user=[1], item=[2], **{role: values}), words)
        for role, name, values, words in [
            ("rating", "nan", [float("nan")], ", row 1: column 'rating' is nan; expected a rating, a finite number"),
            ("rating", "infinite", [float("inf")], ", row 1: column 'rating' is inf; expected a rating"),
            ("rating", "null", pa.array([None], pa.float64()), ", row 1: column 'rating' is empty; expected a rating"),
            ("rating", "list", [[1]], ": column 'rating' holds List(Int64); expected numbers"),
            ("rating", "word", ["good"], ", row 1: column 'rating' is 'good'; expected a rating"),
            ("time", "null", pa.array([None], pa.timestamp("us")), ", row 1: column 'time' is empty; expected a time"),
            ("time", "of-day", pa.array([1], pa.time64("us")), ": column 'time' holds Time; expected numbers"),
            ("time", "duration", pa.array([1], pa.duration("us")), ": column 'time' holds Duration"),
        ]
    ],
    bad("parquet-time-format-of-dates", "x.parquet", table(user=[1], item=[2], time=pa.array([5], pa.timestamp("us"))),
        ": column 'time' holds Datetime", "time_format is for text", time_format="%Y"),
    bad("parquet-time-format-of-lists", "x.parquet", table(user=[1], item=[2], time=[[5]]), "time_format is for text",
        time_format="%Y"),
]  # fmt: skip

REFUSED_NPZ = [
    bad("npz-empty", "x.npz", b"", ": is not a readable .npz file", "get it or write it again"),
    bad("npz-cut", "x.npz", MATRIX[:-40], ": is not a readable .npz file"),
    bad("npz-flipped", "x.npz", flipped(MATRIX, MATRIX.index(b"PK\x03\x04", 4) - 1), ": is not a readable .npz file: Bad CRC-32"),
    bad("npz-is-npy", "x.npz", written(lambda file: np.save(file, np.ones(3))), ": is not a readable .npz file"),
    bad("npz-of-nothing", "x.npz", zipped(), ": holds the arrays none; expected a sparse matrix as scipy's save_npz"),
    bad("npz-of-other-arrays", "x.npz", npz(a=[1], b=[2]), ": holds the arrays a, b; expected a sparse matrix"),
    bad("npz-of-text", "x.npz", zipped(("a.txt", b"hello")), ": is not a readable .npz file"),
    bad("npz-pickle", "x.npz", csr(data=np.array([None, 1], dtype=object)), ": data.npy holds Python objects; expected"),
    bad("npz-packed", "x.npz.gz", gzip.compress(MATRIX), ": .npz files are packed already", "unpack it first"),
    bad("npz-without-indices", "x.npz", npz(format=b"csr", shape=(2, 2), data=[1.0]), "damaged one ('indices is not a file"),
    bad("npz-index-too-large", "x.npz", csr(indices=[9, 0]), ": not a sparse matrix, or a damaged one", "write it again"),
    bad("npz-index-negative", "x.npz", csr(indices=[-1, 0]), ": not a sparse matrix, or a damaged one"),
    bad("npz-index-of-64-bits", "x.npz", csr(indices=np.array([2**64 - 1, 0], np.uint64)), "or a damaged one"),
    bad("npz-index-float", "x.npz", csr(indices=[0.5, 1.5]), ": indices.npy holds float64; expected whole numbers"),
    bad("npz-index-nan", "x.npz", npz(format=b"coo", shape=(2, 2), row=[np.nan], col=[0], data=[1]), ": row.npy holds float64"),
    bad("npz-pointers-fall", "x.npz", csr(indptr=[0, 5, 2]), ": not a sparse matrix, or a damaged one"),
    bad("npz-blocks-outside", "x.npz", npz(format=b"bsr", shape=(4, 4), indices=[7], indptr=[0, 1, 1], data=np.ones((1, 2, 2))),
        ": not a sparse matrix, or a damaged one"),
    bad("npz-of-three-axes", "x.npz", csr(shape=(2, 2, 2)), ": not a sparse matrix, or a damaged one"),
    bad("npz-shape-negative", "x.npz", csr(shape=(-2, 2)), ": not a sparse matrix, or a damaged one"),
    bad("npz-shape-of-words", "x.npz", csr(shape=("a", "b")), ": shape.npy holds <U1; expected whole numbers"),
    bad("npz-shape-of-2-to-63", "x.npz", csr(shape=np.array([2, 2**63], np.uint64)), ": not a sparse matrix, or a damaged"),
    bad("npz-format-unknown", "x.npz", csr(format=b"xyz"), ": not a sparse matrix, or a damaged one"),
    bad("npz-format-a-number", "x.npz", csr(format=3), ": not a sparse matrix, or a damaged one"),
    bad("npz-nan", "x.npz", csr(data=[np.nan, 1]), ": the matrix holds nan in row 0, column 1; expected finite numbers"),
    bad("npz-infinite", "x.npz", csr(data=[1, -np.inf]), ": the matrix holds -inf in row 1, column 0; expected finite"),
    bad("npz-all-zero", "x.npz", csr(data=[0.0, 0.0]), ": there are no rows; expected at least one interaction"),
    bad("npz-claims-a-shape", "x.npz", zipped(("data.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}", bytes(8)))),
        ": data.npy claims the shape (9,), which does not fit its bytes"),
    bad("npz-values-of-no-size", "x.npz", zipped(("data.npy", npy("{'descr': '<U0', 'fortran_order': False, 'shape': (10**12,)}"))),
        "x.npz: "),
    bad("npz-header-nested", "x.npz", zipped(("data.npy", npy("(" * 4000 + ")" * 4000))), ": is not a readable .npz file"),
    bad("npz-header-of-minuses", "x.npz", zipped(("data.npy", npy("-" * 9000 + "1"))), ": is not a readable .npz file"),
    bad("npz-with-options", "x.npz", MATRIX, "separator cannot be set for a sparse matrix; leave out", separator=","),
]  # fmt: skip

ROWS = TWO.encode() + b"".join(b"%d,%d\n" % (n, n * n) for n in range(999))

REFUSED_PACKED = [
    bad("gz-empty", "x.csv.gz", b"", "the file is empty"),
    bad("gz-of-nothing", "x.csv.gz", gzip.compress(b""), "the file is empty"),
    bad("gz-cut", "x.csv.gz", gzip.compress(ROWS)[:-300], ": cannot be read: it is damaged", "get it again"),
    bad("gz-cut-checksum", "x.csv.gz", gzip.compress(ROWS)[:-4], ": cannot be read: it is damaged"),
    bad("gz-wrong-checksum", "x.csv.gz", flipped(gzip.compress(ROWS), -6), ": cannot be read: it is damaged"),
    bad("gz-header-alone", "x.csv.gz", gzip.compress(ROWS)[:10], ": cannot be read: it is damaged"),
    bad("gz-and-garbage", "x.csv.gz", gzip.compress(ROWS) + b"garbage", ": cannot be read: it is damaged"),
    bad("gz-is-text", "x.csv.gz", TWO, ": cannot be read: it is damaged, locked, or not what its suffix says"),
    bad("gz-in-gz", "x.csv.gz", gzip.compress(gzip.compress(ROWS)), ": what is packed in it is packed by gzip, not text; unpack"),
    bad("gz-lines-cut", "x.txt.gz", gzip.compress(b"1 2 3\n4 5\n" * 999)[:-9], ": cannot be read: it is damaged"),
    bad("gz-parquet-cut", "x.parquet.gz", gzip.compress(GOOD_PARQUET)[:-9], ": cannot be read: it is damaged"),
    bad("csv-is-gz", "x.csv", gzip.compress(ROWS), ": the file is packed by gzip, not text; unpack it, or let its name end in .gz"),
    bad("csv-is-zst", "x.csv", zst(ROWS), ": the file is packed by zstd, not text; unpack it, or let its name end in .zst"),
    bad("csv-is-zip", "x.csv", zipped(("x.csv", ROWS)), ": the file is a zip archive or a spreadsheet, not text", "as CSV"),
    bad("csv-is-parquet", "x.csv", GOOD_PARQUET, ": the file is Parquet, not text; let its name end in .parquet"),
    bad("txt-is-parquet", "x.txt", GOOD_PARQUET, ": the file is Parquet, not text"),
    bad("zst-cut", "x.csv.zst", zst(ROWS)[:-30], ": cannot be read: it is damaged", "Truncated"),
    bad("zst-and-garbage", "x.csv.zst", zst(ROWS) + b"garbage", ": cannot be read: it is damaged"),
    bad("zst-is-text", "x.csv.zst", TWO, ": cannot be read: it is damaged, locked, or not what its suffix says"),
    bad("zip-empty", "x.zip", b"", ": cannot be read: it is damaged", "not a zip file"),
    bad("zip-of-nothing", "x.zip", zipped(), ": expected one file in the archive, found nothing"),
    bad("zip-of-two", "x.zip", zipped(("a.csv", ROWS), ("b.csv", ROWS)), ": expected one file in the archive, found a.csv, b.csv; name"),
    bad("zip-cut", "x.zip", zipped(("x.csv", ROWS))[:-10], ": cannot be read: it is damaged"),
    bad("zip-cut-begin", "x.zip", zipped(("x.csv", ROWS))[30:], ": cannot be read: it is damaged"),
    bad("zip-flipped", "x.zip", flipped(zipped(("x.csv", ROWS)), 900), ": cannot be read: it is damaged"),
    bad("zip-flipped-lzma", "x.zip", flipped(zipped(("x.csv", ROWS), kind=zipfile.ZIP_LZMA), 900), ": cannot be read: it is damaged"),
    bad("zip-locked", "x.zip", bytes(LOCKED), ": cannot be read: it is damaged, locked", "encrypted", "unpack it with"),
    bad("zip-in-zip", "x.zip", zipped(("y.zip", zipped(("x.csv", ROWS)))), ": cannot tell the format from the suffix '.zip'"),
    bad("zip-of-ragged-rows", "x.zip", zipped(("x.csv", b"user,item\na,b\nc\n")), ", line 3: 1 column, expected 2"),
    bad("zip-of-npz", "x.zip", zipped(("x.npz", MATRIX)), ": .npz files are packed already", "unpack it first"),
    bad("suffix-unknown", "x.json", "[]", ": cannot tell the format from the suffix '.json'; set format to one of delimited, lines"),
    bad("no-suffix", "ratings", TWO, ": cannot tell the format from the suffix ''; set format to one of"),
]  # fmt: skip

REFUSED = [*REFUSED_TEXT, *REFUSED_RECBOLE, *REFUSED_LINES, *REFUSED_PARQUET, *REFUSED_NPZ, *REFUSED_PACKED]

LOADED = [
    fine("mark", "x.csv", codecs.BOM_UTF8 + TWO.encode(), PAIRS),
    fine("mark-inside", "x.csv", "user,item\na,b\n\ufeffc,d\n", {("a", "b"), ("\ufeffc", "d")}),
    fine("old-macintosh", "x.csv", TWO.replace("\n", "\r"), PAIRS),
    fine("windows", "x.csv", TWO.replace("\n", "\r\n"), PAIRS),
    fine("line-ends-mixed", "x.csv", "user,item\r\na,b\rc,d", PAIRS),
    fine("other-line-ends-are-letters", "x.csv", "user,item\na\x0b\x0c,b\x85\u2028\n", {("a\x0b\x0c", "b\x85\u2028")}),
    fine("utf-16-told", "x.csv", TWO.encode("utf-16"), PAIRS, encoding="utf-16"),
    fine("latin-1-told", "x.csv", "user,item\n\xe9,b\n".encode("latin-1"), {("é", "b")}, encoding="latin-1"),
    fine("latin-1-where-nothing-is-read", "x.csv", "user,item,n\na,b,\xe9\nc,d,e\n".encode("latin-1"), PAIRS),
    fine("zero-byte-where-nothing-is-read", "x.csv", "user,item,n\n" + "a,b,1\n" * 300 + "c,d,\0\n", PAIRS),
    fine("trailing-separators", "x.csv", "user,item,\na,b,\nc,d,\n", PAIRS),
    fine("1-MB-where-nothing-is-read", "x.csv", f"user,item,note\na,b,{LONG}\nc,d,e\n", PAIRS),
    fine("1-MB-in-quotes", "x.csv", f'user,item,note\na,b,"{LONG[::2]}\n,{LONG[::2]}"\nc,d,e\n', PAIRS),
    fine("1-MB-name", "x.csv", f"user,item,{LONG}\na,b,c\nc,d,e\n", PAIRS),
    fine("quotes-inside", "x.csv", 'user,item\na"b,c\nd,"e""f"\n', {('a"b', "c"), ("d", 'e"f')}),
    fine("quotes-of-another-kind", "x.csv", "user,item\n'a','b'\n", {("'a'", "'b'")}),
    fine("separator-in-quotes", "x.dat", 'user::item\n"a::b"::c\n', {("a::b", "c")}),
    fine("user-twice-by-position", "x.csv", "user,user,item\na,b,c\n", {("b", "c")}, columns={"user": 1}),
    fine("ids-beyond-64-bits", "x.csv", f"user,item\n{2**63},{2**64}\n1,{10**40}\n",
         {(str(2**63), str(2**64)), ("1", str(10**40))}),
    fine("ids-at-64-bits", "x.csv", f"user,item\n{2**63 - 1},{-(2**63)}\n", {(2**63 - 1, -(2**63))}),
    fine("ids-like-numbers", "x.csv", "user,item\n007,1.0\n+7,1e3\n7,-0\n", {("007", "1.0"), ("+7", "1e3"), ("7", "-0")}),
    fine("ids-like-nothing", "x.csv", "user,item\nNaN,null\nNone,NA\n", {("NaN", "null"), ("None", "NA")}),
    fine("rating-in-blanks", "x.csv", "user,item,rating\na,b, 4 \nc,d,1e308\n", PAIRS),
    fine("times-negative", "x.csv", "user,item,time\na,b,-5\nc,d,0\n", PAIRS, times=[-5.0, 0.0]),
    fine("times-far-off", "x.csv", "user,item,time\na,b,1e30\nc,d,1\nc,e,2\n", {*PAIRS, ("c", "e")}, times=[1e30, 1.0, 2.0]),
    fine("times-of-the-year-9999", "x.csv", "user,item,time\na,b,9999-12-31\nc,d,9999-12-31\n", PAIRS, times=[253402214400.0] * 2),
    fine("dates-with-and-without-hours", "x.csv", "user,item,time\na,b,2020-01-01\nc,d,2020-01-01 00:00:01\n", PAIRS,
         times=[1577836800.0, 1577836801.0]),
    fine("inter-of-sequences", "x.inter", "user_id:token\titem_id:token\ttags:token_seq\na\tb\tx y\nc\td\t\n", PAIRS),
    fine("inter-without-types", "x.inter", "user_id\titem_id\na\tb\nc\td\n", PAIRS),
    fine("lines-unended", "x.txt", "1 2 3 \n4 5 ", {(1, 2), (1, 3), (4, 5)}),
    fine("lines-of-4-MB", "x.txt", "1 2\n3 4 5\n6 " + "7 8 " * 999_999 + "9\n",
         {(1, 2), (3, 4), (3, 5), (6, 7), (6, 8), (6, 9)}),
    fine("one-user", "x.csv", "user,item\na,1\na,2\n", {("a", 1), ("a", 2)}),
    fine("one-item", "x.csv", "user,item\na,1\nb,1\n", {("a", 1), ("b", 1)}),
    fine("one-pair", "x.csv", "user,item\na,1\na,1\n", {("a", 1)}),
    fine("gz-in-pieces", "x.csv.gz", gzip.compress(TWO.encode()) + gzip.compress(b"e,f\n"), PAIRS | {("e", "f")}),
    fine("zst-in-pieces", "x.csv.zst", zst(TWO.encode()) + zst(b"e,f\n"), PAIRS | {("e", "f")}),
    fine("zip-lzma", "x.zip", zipped(("x.csv", TWO.encode()), kind=zipfile.ZIP_LZMA), PAIRS),
    fine("zip-of-parquet", "x.zip", zipped(("x.parquet", GOOD_PARQUET)), PAIRS),
    fine("parquet-packed-again", "x.parquet.gz", gzip.compress(GOOD_PARQUET), PAIRS),
    fine("parquet-user-twice-by-position", "x.parquet", SAME_NAMES, {("b", "c")}, columns={"user": 1}),
    fine("parquet-of-dictionaries", "x.parquet", table(user=pa.array(["a", "c"]).dictionary_encode(), item=["b", "d"]), PAIRS),
    fine("parquet-ratings-of-dictionaries", "x.parquet",
         table(user=["a", "c"], item=["b", "d"], rating=pa.array(["1", "2"]).dictionary_encode()), PAIRS),
    fine("parquet-ids-beyond-int64", "x.parquet", table(user=pa.array([2**64 - 1, 1], pa.uint64()), item=[1, 2]),
         {(2**64 - 1, 1), (1, 2)}),
    fine("parquet-nested-where-nothing-is-read", "x.parquet", table(user=["a", "c"], item=["b", "d"], x=[{"a": [1]}, None]), PAIRS),
    fine("parquet-not-utf-8-where-nothing-is-read", "x.parquet", table(user=[1], item=[2], note=NOT_UTF8), {(1, 2)}),
    *[
        fine(f"parquet-time-{name}", "x.parquet", table(user=["a"], item=["b"], time=times), {("a", "b")}, times=[seconds])
        for name, times, seconds in [
            ("of-another-zone", pa.array([10**15], pa.timestamp("us", "+05:30")), 1e9),
            ("of-no-zone", pa.array([10**15], pa.timestamp("us", "Nowhere/Land")), 1e9),
            ("in-nanoseconds", pa.array([10**18 + 999], pa.timestamp("ns")), 1e9),
            ("beyond-calendars", pa.array([2**62], pa.timestamp("ms")), 2**62 / 1e3),
            ("before-calendars", pa.array([-(2**62)], pa.timestamp("us")), -(2**62) / 1e6),
            ("day-beyond-calendars", pa.array([2**31 - 1], pa.date32()), (2**31 - 1) * 86400.0),
        ]
    ],
    fine("npz-of-yes-and-no", "x.npz", csr(data=[True, False]), {(0, 1)}),
    fine("npz-of-huge-width", "x.npz", csr(shape=(2, 2**62)), {(0, 1), (1, 0)}),
    fine("npz-written-by-python-2", "x.npz", zipped(
        *[(f"{name}.npy", npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n", content))
          for name, kind, shape, content in [("format", "|S3", "()", b"coo"), ("shape", "<i8", "(2L,)", bytes([2, *bytes(7)] * 2)),
                                             ("row", "<i4", "(1L,)", bytes(4)), ("col", "<i4", "(1L,)", bytes([1, 0, 0, 0])),
                                             ("data", "|i1", "(1L,)", b"\1")]]), {(0, 1)}),
]  # fmt: skip


def named(files: list[File]) -> list[Any]:
    return [pytest.param(file, id=file.id) for file in files]


@pytest.fixture(scope="module", autouse=True)
def all_is_imported(tmp_path_factory):
    """What the first reading imports would count as memory that a file took."""
    for file in (bad("", "x.csv", TWO), bad("", "x.parquet", GOOD_PARQUET), bad("", "x.npz", MATRIX)):
        path = tmp_path_factory.mktemp("first") / file.name
        path.write_bytes(file.content)
        pspns.load(path)


def message_of(path: Path | str, **options: Any) -> str:
    with guarded(path), pytest.raises(PspnsError) as error:
        pspns.load(path, **options)
    assert type(error.value) in (DataError, SettingsError)
    return str(error.value)


def pairs(found: Any) -> list[tuple[Any, Any]]:
    return list(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


@pytest.mark.parametrize("file", named(REFUSED))
def test_is_refused(tmp_path, file):
    path = tmp_path / file.name
    path.write_bytes(file.content)
    text = message_of(path, **file.options)
    # What is wrong with an option is no fault of the file.
    assert text.startswith(str(path)) or text.startswith(("no ", "time_format"))
    rest = text
    for words in file.words:
        _, found, rest = rest.partition(words)
        assert found, f"{words!r} is not in {text!r}"
    assert text.isprintable()
    assert len(text) < 1000


@pytest.mark.parametrize("file", named(LOADED))
def test_is_read(tmp_path, file):
    path = tmp_path / file.name
    path.write_bytes(file.content)
    with guarded(path):
        found = pspns.load(path, **file.options)
    assert set(pairs(found)) == file.pairs
    assert len(found) == len(file.pairs)
    assert (None if found.times is None else found.times.tolist()) == file.times
    assert max(map(len, found.facts)) < 1000


def test_as_many_as_are_promised():
    assert len(REFUSED) + len(LOADED) >= 250
    assert len({file.id for file in REFUSED + LOADED}) == len(REFUSED) + len(LOADED)


class TestPlaces:
    """Paths at which there is no file that could be read."""

    @pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.parquet", "x.npz", "x.csv.gz", "x.csv.zst", "x.zip"])
    def test_a_pipe_is_not_waited_for(self, tmp_path, name):
        os.mkfifo(tmp_path / name)
        # Should reading wait for a writer, one comes and goes after a while, so that the suite does not wait, too.
        writer = threading.Timer(20, lambda: (tmp_path / name).open("wb").close())
        writer.daemon = True
        writer.start()
        text = message_of(tmp_path / name)
        assert writer.is_alive()
        writer.cancel()
        assert text.startswith(f"{tmp_path / name}: ")
        assert "is a pipe or a device; expected a file" in text or name in ("x.npz", "x.zip")

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
    def test_a_device_has_no_end(self, tmp_path, device):
        (tmp_path / "x.csv").symlink_to(device)
        assert f"{tmp_path}/x.csv: is a pipe or a device; expected a file" in message_of(tmp_path / "x.csv")

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    @pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.parquet", "x.npz"])
    def test_a_disk_that_fails(self, tmp_path, name):
        (tmp_path / name).symlink_to("/proc/self/mem")  # can be opened; reading it is an input/output error
        assert message_of(tmp_path / name).startswith(f"{tmp_path / name}: ")

    def test_nothing_there(self, tmp_path):
        assert f"no file, folder or data set '{tmp_path}/x.csv'" in message_of(tmp_path / "x.csv")

    def test_links_in_a_circle(self, tmp_path):
        (tmp_path / "x.csv").symlink_to(tmp_path / "y.csv")
        (tmp_path / "y.csv").symlink_to(tmp_path / "x.csv")
        assert f"no file, folder or data set '{tmp_path}/x.csv'" in message_of(tmp_path / "x.csv")

    def test_a_link_into_nothing(self, tmp_path):
        (tmp_path / "x.csv").symlink_to(tmp_path / "gone.csv")
        assert f"no file, folder or data set '{tmp_path}/x.csv'" in message_of(tmp_path / "x.csv")

    def test_a_file_that_is_no_folder(self, tmp_path):
        (tmp_path / "x.csv").write_text(TWO)
        assert "no file, folder or data set" in message_of(tmp_path / "x.csv" / "train.csv")

    def test_a_name_that_is_too_long(self, tmp_path):
        path = tmp_path / f"{'x' * 300}.csv"
        assert message_of(path) == f"{path}: cannot be read: File name too long"

    @pytest.mark.parametrize("name", ["a\0b.csv", "a\nb.csv", "a\x1b[31mb.csv", " ", "\udcff.csv"])
    def test_a_name_that_is_none(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        assert f"no file, folder or data set '{name}'" in message_of(name)

    @pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, tmp_path):
        (tmp_path / "x.csv").write_text(TWO)
        (tmp_path / "x.csv").chmod(0)
        assert message_of(tmp_path / "x.csv") == f"{tmp_path}/x.csv: cannot be read: Permission denied"

    def test_in_an_archive_that_lacks_it(self, tmp_path):
        (tmp_path / "x.zip").write_bytes(zipped(("a.csv", TWO.encode())))
        assert "x.zip: holds no file 'b.csv'; it holds: a.csv" in message_of(tmp_path / "x.zip" / "b.csv")


class TestFolders:
    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({}, "no train file; the folder holds: no files. Expected train, test and perhaps valid"),
            ({"test.csv": TWO}, "no train file; the folder holds: test.csv"),
            ({"train.csv": TWO}, "no test file; the folder holds: train.csv"),
            (
                {"train.csv": TWO, "train.tsv": TWO, "test.csv": TWO},
                "train.csv and train.tsv could all be the train part",
            ),
            ({"train.csv": TWO, "test.csv": ""}, "test.csv: the file is empty"),
            ({"train.csv": TWO, "test.csv": "user,item\na\n"}, "test.csv, line 2: 1 column, expected 2"),
            ({"train.csv": TWO, "test.csv": "user,item,rating\na,b,x\n"}, "test.csv: "),
            ({"train.txt": "1 2 3\n4 5\n", "test.txt": "1\n"}, "test.txt: no line has an item behind its user"),
        ],
    )
    def test_parts_that_are_missing_or_wrong(self, tmp_path, files, words):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        if words == "test.csv: ":  # ratings that not every part has are not looked at
            found = pspns.load(tmp_path)
            assert [int((found.parts == part).sum()) for part in Part] == [2, 0, 0]
            return
        text = message_of(tmp_path)
        assert text.startswith(str(tmp_path))
        assert words in text

    def test_a_pipe_among_the_files(self, tmp_path):
        (tmp_path / "train.csv").write_text(TWO)
        os.mkfifo(tmp_path / "test.csv")
        assert "no test file" in message_of(tmp_path)


class TestTraining:
    """What can be read, but leaves nothing to learn."""

    @pytest.mark.parametrize(
        ("users", "items", "expected"),
        [
            (["a"], range(30), "1 of 1 users own all 24 items"),
            (range(30), ["a"], "24 of 24 users own all 1 items"),
            (["a"], ["b"], "1 of 1 users own all 1 items"),
        ],
        ids=["one-user", "one-item", "one-pair"],
    )
    def test_one_user_or_item(self, tmp_path, users, items, expected):
        path = tmp_path / "x.csv"
        path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user in users for item in items))
        with pytest.raises(DataError, match=f"{expected}.* so no negative can be drawn for them; leave such users out"):
            pspns.fit(path, model="mf", steps=2, baselines=False, threads=1)
        model = pspns.fit(path, model="popular", baselines=False, threads=1)
        assert any(model.knows_user(user) for user in users)


class TestCommands:
    """The same through the command line: one line, an exit code, no traceback."""

    @pytest.mark.parametrize(
        "file",
        named([file for file in REFUSED if not file.options and file.id in {
            "no-bytes", "utf-16", "zero-byte", "short-row", "header-again", "user-twice", "quote-unclosed", "id-of-1-MB",
            "rating-nan", "time-nan", "inter-unknown-type", "parquet-cut-footer", "parquet-not-utf-8", "parquet-ids-list",
            "npz-pickle", "npz-header-of-minuses", "gz-cut", "zip-locked", "zip-of-two", "csv-is-gz", "suffix-unknown",
        }]),
    )  # fmt: skip
    def test_one_line(self, tmp_path, command, file):
        path = tmp_path / file.name
        path.write_bytes(file.content)
        for words in (["data", "show", path], ["train", "--data", path, "--out", tmp_path / "out"]):
            outcome = command(*words)
            assert outcome.code == 1
            assert outcome.out == ""
            assert outcome.err.splitlines()[-1].startswith(f"pspns: error: {path}")
            assert file.words[0] in outcome.err
            assert "Traceback" not in outcome.err
            assert outcome.err.count("\n") == 1
        assert not (tmp_path / "out").exists()

    def test_a_name_with_escapes_is_shown_not_obeyed(self, tmp_path, command):
        path = tmp_path / "a\x1b[31m\nb.csv"
        path.write_text("user,item\na\n")
        outcome = command("data", "show", path)
        assert outcome.code == 1
        assert outcome.err == (
            f"pspns: error: {tmp_path}/a\\x1b[31m\\nb.csv, line 2: 1 column, expected 2 as in line 1 (separator: comma); mend "
            "the line, or set format to 'lines' if each line is a user followed by their items\n"
        )

    def test_an_option_that_cannot_be_is_2(self, tmp_path, command):
        (tmp_path / "x.csv").write_text(TWO)
        outcome = command("data", "show", tmp_path / "x.csv", "--encoding", "klingon")
        assert outcome.code == 2
        assert "no encoding named 'klingon'" in outcome.err
