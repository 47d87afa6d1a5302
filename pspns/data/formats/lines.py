"""Lines of a user followed by all their items, separated by blanks, as LightGCN's data sets are published."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pspns.data.formats._text import TextFile
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError

# None of its own: `.txt` holds tables as well, and the content decides.
SUFFIXES = ()

_BLOCK_CHARACTERS = 1 << 20
_LINES_LOOKED_AT = 5_000
# A table with broken rows must be refused, not read as users with items: where nearly all lines have the same
# three or more cells, it is a table.
_SHARE_OF_A_TABLE = 0.95
_NUMBERS = re.compile(r"[0-9 ]*")


def read(path: Path, how: Reading) -> Table:
    """The pairs in a lines file; a user without items is allowed, and counted."""
    if how.columns is not None or how.header is not None or how.separator is not None:
        raise SettingsError(
            f"{path}: lines of a user and their items have no columns; leave columns, header and separator out"
        )
    file = TextFile(path, how.encoding)
    file.check_whole()
    file.refuse_other_kinds()
    n_lonely = n_pairs = 0
    for words in _words(file):
        pairs = words.filter(~pl.col("is_user"))
        n_pairs += pairs.height
        n_lonely += int(words["is_user"].sum()) - pairs["line"].n_unique()
    if not n_lonely and not n_pairs:
        raise DataError(f"{path}: the file is empty; expected lines of a user followed by their items")
    if not n_pairs:
        raise DataError(f"{path}: no line has an item behind its user; expected at least one")
    facts = ["each line read as a user followed by their items"]
    if n_lonely:
        facts.append(f"{n_lonely:,} line{'s' if n_lonely > 1 else ''} with a user but no item")
    return Table(
        source=str(path),
        labels={"user": "user", "item": "item"},
        pieces=lambda: (pairs.select("user", "item") for pairs in _pairs(file)),
        where=lambda row: _line_of(file, row),
        facts=tuple(facts),
    )


def looks_like_lines(file: TextFile) -> bool:
    """Are there numbers alone, as many as a line's user has items?"""
    head = [line.rstrip("\r\n") for line in file.head(_LINES_LOOKED_AT)]
    # Words would be titles or comments, other separators those of a table: such files are never guessed to be lines.
    if not all(_NUMBERS.fullmatch(line) for line in head):
        return False
    lengths = Counter(len(line.split()) for line in head if line.strip())
    if not lengths:
        return False
    # Published files often end each line in a blank.
    if all(line.endswith(" ") for line in head if line):
        return len(lengths) > 1 or max(lengths) < 3
    commonest, n_lines = lengths.most_common(1)[0]
    is_table = commonest >= 3 and n_lines >= _SHARE_OF_A_TABLE * lengths.total()
    return len(lengths) > 1 and not is_table


def _pairs(file: TextFile) -> Iterator[pl.DataFrame]:
    """Columns line, user, item; block by block."""
    for words in _words(file):
        pairs = words.filter(~pl.col("is_user")).select("line", "user", item="word")
        if pairs.height:
            yield pairs


def _words(file: TextFile) -> Iterator[pl.DataFrame]:
    """Every word, the line it stands on, whether it is the first there, and which one is."""
    for first_line, lines in _blocks_of_lines(file):
        yield (
            pl.DataFrame({"word": lines}, schema={"word": pl.String})
            .with_row_index("line", offset=first_line)
            .with_columns(pl.col("word").str.replace_all("[\r\n\t]", " ").str.split(" "))
            .explode("word")
            .filter(pl.col("word") != "")
            .with_columns(is_user=pl.col("line") != pl.col("line").shift(fill_value=0))
            .with_columns(user=pl.when("is_user").then("word").forward_fill())
        )


def _blocks_of_lines(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Some lines, and the number of the first; a long line comes alone, as several of the same user."""
    block: list[str] = []
    n_characters = 0
    for number, line in enumerate(file.lines(), start=1):
        if "�" in line and (error := file.not_utf8()):
            raise error
        if n_characters + len(line) > _BLOCK_CHARACTERS and block:
            yield number - len(block), block
            block, n_characters = [], 0
        if len(line) > _BLOCK_CHARACTERS:
            yield from ((number, [part]) for part in _cut(line))
            continue
        block.append(line)
        n_characters += len(line)
    if block:
        yield number + 1 - len(block), block


def _cut(line: str) -> Iterator[str]:
    user, _, items = line.replace("\t", " ").strip(" \r\n").partition(" ")
    if not items:
        yield user
    while items := items.lstrip(" "):
        end = items.find(" ", _BLOCK_CHARACTERS)
        part, items = (items, "") if end < 0 else (items[:end], items[end:])
        yield f"{user} {part}"


def _line_of(file: TextFile, row: int) -> str:
    for pairs in _pairs(file):
        if row < pairs.height:
            return f"line {pairs['line'][row]:,}"
        row -= pairs.height
    raise IndexError(row)
