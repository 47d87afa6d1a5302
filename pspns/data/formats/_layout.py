"""How a delimited file is written: its separator, its quotes, its header, found from the file itself."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.data.columns import AskedColumns, asked_names, is_known_name
from pspns.data.formats._text import open_bytes, open_text, unpacked_name
from pspns.errors import DataError

# Suffix → the separator it promises; None where it promises none.
SUFFIXES: dict[str, str | None] = {
    ".csv": ",",
    ".tsv": "\t",
    ".tab": "\t",
    ".inter": "\t",
    ".psv": "|",
    ".rating": "\t",
    ".txt": None,
    ".dat": None,
    ".data": None,
}

# In order of preference where two split the lines into equally many cells.
SEPARATORS = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "pipe", "::": "double colon", " ": "blank"}

# Takes the place of a separator of two characters: parsers know single ones only.
UNIT_SEPARATOR = "\x1f"

_HEAD_LINES = 200


@dataclass(frozen=True)
class Layout:
    path: Path
    separator: str
    has_quotes: bool
    has_header: bool
    first_row: list[str]  # its cells; where they are names, without the types that RecBole writes behind
    first_line: int  # where that row stands, from 1: blank lines may come before it

    @property
    def width(self) -> int:
        return len(self.first_row)

    def line_of(self, row: int) -> str:
        """Where a row of the table, counted from 0, stands in the file."""
        rows = numbered_rows(self.path, self.separator)
        line, _ = next(itertools.islice(rows, row + self.has_header, None))
        return f"line {line:,}"

    def has_rows(self) -> bool:
        """Is there anything below the header?"""
        rows = numbered_rows(self.path, self.separator)
        return next(itertools.islice(rows, int(self.has_header), None), None) is not None

    def separator_fact(self) -> tuple[str, ...]:
        if self.separator == _promised(self.path):
            return ()
        return (f"columns separated by {SEPARATORS[self.separator]} (guessed)",)


def find_layout(path: Path, header: bool | None, asked: AskedColumns | None) -> Layout:
    head = _head(path)
    first_line = 1 + sum(1 for _ in itertools.takewhile(lambda line: not line.strip("\r\n"), head))
    if first_line > len(head):
        raise DataError(f"{path}: the file is empty; expected lines with a user and an item")
    if any("\0" in line for line in head):
        raise DataError(f"{path}: the file has zero bytes, so it is not UTF-8 text; save it as UTF-8")
    separator = consistent_separator(path) or _any_separator(path, head[first_line - 1], first_line)
    has_quotes = _has_quotes(path)
    if has_quotes:
        # Arrow takes a quote that never closes for one huge cell: rows would vanish without a word.
        for _ in numbered_rows(path, separator, strict=True):
            pass
    cells = next(row for row in _cells(head, separator) if row)
    names = [_without_type(cell) for cell in cells]
    if header is None:
        header = _is_header(names, asked, f"{path}, line {first_line}")
    return Layout(path, separator, has_quotes, header, names if header else cells, first_line)


def consistent_separator(path: Path) -> str | None:
    """The separator that cuts each of the first lines into equally many cells, two or more, if any does."""
    head = _head(path)
    widths = {separator: _common_width(head, separator) for separator in _candidates(path)}
    fitting = {separator: width for separator, width in widths.items() if width is not None}
    promised = _promised(path)
    if promised in fitting:
        return promised
    return max(fitting, key=lambda separator: fitting[separator], default=None)


def numbered_rows(path: Path, separator: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of the line it starts on; `strict` refuses odd quotes."""
    with closing(open_text(path)) as lines:
        reader = _cells(lines, separator, strict=strict)
        line = 1
        try:
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f'{path}, line {line:,}: odd quotes ({error}); a cell that begins with " must end with it, '
                f'and a " inside it is written twice'
            ) from error


def _cells(lines: Iterable[str], separator: str, *, strict: bool = False) -> Any:
    if len(separator) == 1:
        return csv.reader(lines, delimiter=separator, strict=strict)
    replaced = (line.replace(separator, UNIT_SEPARATOR) for line in lines)
    return csv.reader(replaced, delimiter=UNIT_SEPARATOR, strict=strict)


def _head(path: Path) -> list[str]:
    with closing(open_text(path)) as lines:
        return list(itertools.islice(lines, _HEAD_LINES))


def _has_quotes(path: Path) -> bool:
    with open_bytes(path) as stream:
        return any(b'"' in block for block in iter(lambda: stream.read(1 << 20), b""))


def _promised(path: Path) -> str | None:
    return SUFFIXES.get(unpacked_name(path).suffix.lower())


def _candidates(path: Path) -> list[str]:
    # Blanks occur inside the cells of a .csv, so they separate only where the suffix promises nothing else.
    return [separator for separator in SEPARATORS if separator != " " or _promised(path) is None]


def _common_width(head: list[str], separator: str) -> int | None:
    try:
        widths = [len(row) for row in _cells(head, separator) if row]
    except csv.Error:
        return None
    if len(head) == _HEAD_LINES and len(widths) > 1:
        widths.pop()  # its quotes may close below the head
    return widths[0] if len(set(widths)) == 1 and widths[0] > 1 else None


def _any_separator(path: Path, line: str, number: int) -> str:
    """For a file whose rows differ in length: reading it will name the row at fault."""
    promised = _promised(path)
    candidates = _candidates(path) if promised is None else [promised, *_candidates(path)]
    for separator in candidates:
        if separator in line.strip("\r\n"):
            return separator
    expected = ", ".join(SEPARATORS[separator] for separator in _candidates(path))
    raise DataError(
        f"{path}, line {number}: {line.strip()[:80]!r} is a single column; expected two or more, "
        f"separated by one of: {expected}"
    )


def _is_header(names: list[str], asked: AskedColumns | None, where: str) -> bool:
    are_values = [_is_number_or_date(name) for name in names]
    if all(are_values):
        return False
    if asked_names(asked) or (any(is_known_name(name) for name in names) and not any(are_values)):
        return True
    raise DataError(
        f"{where}: cannot tell whether {', '.join(map(repr, names[:10]))} is a header; "
        f"set header=True or header=False (on the command line: --header yes or --header no)"
    )


def _is_number_or_date(cell: str) -> bool:
    return _NUMBER_OR_DATE.fullmatch(cell.strip()) is not None


_NUMBER_OR_DATE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|\d{4}-\d{2}-\d{2}.*")


def _without_type(name: str) -> str:
    """RecBole writes a column's type behind its name: `user_id:token`."""
    return re.sub(r":(token|float|token_seq|float_seq)$", "", name.strip())
