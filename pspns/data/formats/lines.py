"""Lines of a user followed by all their items, separated by blanks, as LightGCN's data sets are published."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl

from pspns.data.formats._text import errors_name, not_utf8, open_bytes, open_text
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError

# None of its own: `.txt` holds tables as well, and the content decides.
SUFFIXES = ()

_LINES_LOOKED_AT = 5_000
# A table with broken rows must be refused, not read as users with items: where nearly all lines have the same
# three or more cells, it is a table.
_SHARE_OF_A_TABLE = 0.95


def read(path: Path, how: Reading) -> Table:
    """The pairs in a lines file; a user without items is allowed, and counted."""
    if how.columns is not None or how.header is not None:
        raise SettingsError(f"{path}: lines of a user and their items have no columns; leave columns and header out")
    with errors_name(path), open_bytes(path) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path) or error from error
    if not text.strip():
        raise DataError(f"{path}: the file is empty; expected lines of a user followed by their items")

    words = (
        pl.DataFrame({"word": text.replace("\r", "").replace("\t", " ").split("\n")})
        .with_row_index("line", offset=1)
        .with_columns(pl.col("word").str.split(" "))
        .explode("word")
        .filter(pl.col("word") != "")
        .with_columns(is_user=pl.col("line") != pl.col("line").shift(fill_value=0))
        .with_columns(user=pl.when("is_user").then("word").forward_fill())
    )
    pairs = words.filter(~pl.col("is_user"))
    if pairs.height == 0:
        raise DataError(f"{path}: no line has an item behind its user; expected at least one")
    lonely = int(words["is_user"].sum()) - pairs["line"].n_unique()
    facts = ["each line read as a user followed by their items"]
    if lonely:
        facts.append(f"{lonely:,} line{'s' if lonely > 1 else ''} with a user but no item")
    return Table(
        source=str(path),
        users=pairs["user"],
        items=pairs["word"].alias("item"),
        ratings=None,
        times=None,
        where=lambda row: f"line {pairs['line'][row]:,}",
        facts=tuple(facts),
    )


def looks_like_lines(path: Path) -> bool:
    """Does the number of words vary from line to line, as the number of a user's items does?"""
    with errors_name(path), closing(open_text(path)) as lines:
        head = [line.rstrip("\r\n") for line in itertools.islice(lines, _LINES_LOOKED_AT)]
    lengths = Counter(len(line.split()) for line in head if line.strip())
    if not lengths:
        return False
    # Published files often end each line in a blank.
    if all(line.endswith(" ") for line in head if line):
        return True
    commonest, n_lines = lengths.most_common(1)[0]
    is_table = commonest >= 3 and n_lines >= _SHARE_OF_A_TABLE * lengths.total()
    return len(lengths) > 1 and not is_table
