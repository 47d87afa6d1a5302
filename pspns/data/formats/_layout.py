"""How a delimited file is written: its separator, its quotes, its header, found from the file itself."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.data.columns import AskedColumns, asked_names, is_known_name
from pspns.data.formats._text import LONGEST_LINE, TextFile, unpacked_name
from pspns.data.table import Reading
from pspns.errors import DataError, SettingsError

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

# Takes the place of a separator of several characters: parsers know single ones only.
UNIT_SEPARATOR = "\x1f"

# What RecBole writes behind a column's name, as in `user_id:token`.
_RECBOLE_TYPES = ("token", "float", "token_seq", "float_seq")

_HEAD_LINES = 200


@dataclass(frozen=True)
class Layout:
    file: TextFile
    separator: str
    has_quotes: bool
    has_header: bool
    first_row: list[str]  # its cells as they are written
    first_line: int  # where that row stands, from 1: blank lines may come before it

    @property
    def width(self) -> int:
        return len(self.first_row)

    @property
    def names(self) -> list[str]:
        """Of the columns, without the types that RecBole writes behind."""
        return [_without_type(cell) for cell in self.first_row]

    def line_of(self, row: int) -> str:
        """Where a row of the table, counted from 0, stands in the file."""
        rows = numbered_rows(self.file, self.separator)
        line, _ = next(itertools.islice(rows, row + self.has_header, None))
        return f"line {line:,}"

    def has_rows(self) -> bool:
        """Is there anything below the header?"""
        rows = numbered_rows(self.file, self.separator)
        return next(itertools.islice(rows, int(self.has_header), None), None) is not None

    def separator_fact(self, *, is_asked: bool) -> tuple[str, ...]:
        if is_asked or self.separator == _promised(self.file.path):
            return ()
        return (f"columns separated by {separator_name(self.separator)} (guessed)",)


def separator_name(separator: str) -> str:
    return SEPARATORS.get(separator, repr(separator))


def find_layout(file: TextFile, how: Reading) -> Layout:
    file.check_whole()
    file.refuse_other_kinds()
    head = file.head(_HEAD_LINES)
    if not any(line.strip() for line in head):
        found = f"the first {len(head)} lines are blank" if _is_cut(head) else "the file is empty"
        raise DataError(f"{file}: {found}; expected lines with a user and an item")
    first_line = 1 + sum(1 for _ in itertools.takewhile(lambda line: not line.strip("\r\n"), head))
    for number, line in enumerate(head, start=1):
        if "\0" in line:
            raise DataError(
                f"{file}, line {number}: has zero bytes, so the file is not UTF-8 text; set encoding if it is UTF-16 "
                "(on the command line: --encoding utf-16), or save it as UTF-8"
            )
    if (mark := head[first_line - 1][0]) in "#%":
        raise DataError(f"{file}, line {first_line}: begins with {mark!r}, as a comment does; leave such lines out")
    separator = (
        asked_separator(how.separator)
        or consistent_separator(file)
        or _any_separator(file, head[first_line - 1], first_line)
    )
    if len(separator) > 1:
        _refuse_unit_separators(file, separator)
    has_quotes = any(b'"' in block for block in file.blocks())
    if has_quotes:
        # Arrow takes a quote that never closes for one huge cell: rows would vanish without a word.
        for _ in numbered_rows(file, separator, strict=True):
            pass
    cells = next(row for row in _cells(head, separator) if row)
    header = how.header
    if header is None and unpacked_name(file.path).suffix.lower() == ".inter" and any(":" in cell for cell in cells):
        _check_recbole_header(cells, f"{file}, line {first_line}")
        header = True
    if header is None:
        header = _is_header([_without_type(cell) for cell in cells], how.columns, f"{file}, line {first_line}")
    return Layout(file, separator, has_quotes, header, cells, first_line)


def asked_separator(asked: str | None) -> str | None:
    r"""The separator as users give it: a name, such as tab, or the characters themselves.

    >>> asked_separator("tab"), asked_separator("\\t"), asked_separator("^")
    ('\t', '\t', '^')
    """
    if asked is None:
        return None
    by_name = {name: separator for separator, name in SEPARATORS.items()} | {"\\t": "\t"}
    separator = by_name.get(asked, asked)
    if not separator or set(separator) & set('"\r\n\0') or not separator.isascii():
        raise SettingsError(
            f"separator cannot be {asked!r}; expected ASCII characters other than quotes and line ends, or one of "
            f"{', '.join(SEPARATORS.values())}"
        )
    return separator


def consistent_separator(file: TextFile) -> str | None:
    """The separator that cuts each of the first lines into equally many cells, two or more, if any does."""
    head = file.head(_HEAD_LINES)
    widths = {separator: _common_width(head, separator) for separator in _candidates(file.path)}
    fitting = {separator: width for separator, width in widths.items() if width is not None}
    promised = _promised(file.path)
    # Where decimals are written 4,5, Excel separates by semicolons what it calls a CSV.
    if promised == "," and fitting.get(";", 0) > fitting.get(",", 0):
        return ";"
    if promised in fitting:
        return promised
    return max(fitting, key=lambda separator: fitting[separator], default=None)


def numbered_rows(file: TextFile, separator: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of the line it starts on; `strict` refuses odd quotes."""
    reader = _cells(file.lines(), separator, strict=strict)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f'{file}, line {line:,}: odd quotes ({error}); a cell that begins with " must end with it, '
            f'and a " inside it is written twice'
        ) from error


def _cells(lines: Iterable[str], separator: str, *, strict: bool = False) -> Any:
    # Reviews may be longer than the 128 KiB that the csv module takes; its limit is one for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    if len(separator) == 1:
        return csv.reader(lines, delimiter=separator, strict=strict)
    replaced = (line.replace(separator, UNIT_SEPARATOR) for line in lines)
    return csv.reader(replaced, delimiter=UNIT_SEPARATOR, strict=strict)


def _is_cut(head: list[str]) -> bool:
    return len(head) == _HEAD_LINES or sum(map(len, head)) > LONGEST_LINE


def _refuse_unit_separators(file: TextFile, separator: str) -> None:
    if any(UNIT_SEPARATOR.encode() in block for block in file.blocks()):
        line = next(number for number, line in enumerate(file.lines(), start=1) if UNIT_SEPARATOR in line)
        raise DataError(
            f"{file}, line {line:,}: holds the control character 0x1f, which cannot stand in a file whose columns are "
            f"separated by {separator_name(separator)}; leave it out"
        )


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
    if _is_cut(head) and len(widths) > 1:
        widths.pop()  # its quotes may close below the head
    return widths[0] if len(set(widths)) == 1 and widths[0] > 1 else None


def _any_separator(file: TextFile, line: str, number: int) -> str:
    """For a file whose rows differ in length: reading it will name the row at fault."""
    promised = _promised(file.path)
    candidates = _candidates(file.path) if promised is None else [promised, *_candidates(file.path)]
    for separator in candidates:
        if separator in line.strip("\r\n"):
            return separator
    expected = ", ".join(SEPARATORS[separator] for separator in _candidates(file.path))
    raise DataError(
        f"{file}, line {number}: {line.strip()[:80]!r} is a single column; expected two or more, "
        f"separated by one of: {expected}; set separator if it is another"
    )


def _check_recbole_header(cells: list[str], where: str) -> None:
    for cell in cells:
        name, colon, kind = cell.strip().rpartition(":")
        if not name or not colon or kind not in _RECBOLE_TYPES:
            raise DataError(
                f"{where}: {cell[:80]!r} is no column of a RecBole file; expected NAME:TYPE with one of the types "
                f"{', '.join(_RECBOLE_TYPES)}, such as user_id:token; set header if the file is written otherwise"
            )


def _is_header(names: list[str], asked: AskedColumns | None, where: str) -> bool:
    are_values = [_is_number_or_date(name) for name in names]
    if all(are_values):
        return False
    if asked_names(asked) or (any(is_known_name(name) for name in names) and not any(are_values)):
        return True
    raise DataError(
        f"{where}: cannot tell whether {', '.join(repr(name[:80]) for name in names[:10])} is a header; "
        f"set header=True or header=False (on the command line: --header yes or --header no)"
    )


def _is_number_or_date(cell: str) -> bool:
    return _NUMBER_OR_DATE.fullmatch(cell.strip()) is not None


_NUMBER_OR_DATE = re.compile(r"[-+]?(\d+[.,]?\d*|\.\d+)([eE][-+]?\d+)?|\d{4}[-/]\d{2}[-/]\d{2}.*")


def _without_type(name: str) -> str:
    return re.sub(rf":({'|'.join(_RECBOLE_TYPES)})$", "", name.strip())
