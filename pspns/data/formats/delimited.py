"""Tables as text: CSV, TSV and other separators, with or without a header."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow_csv

from pspns.data.columns import Columns, choose_columns, choose_positions
from pspns.data.formats._layout import UNIT_SEPARATOR, Layout, find_layout, numbered_rows, separator_name
from pspns.data.formats._text import LONGEST_LINE, TextFile, errors_name, in_one_line
from pspns.data.series import as_numbers
from pspns.data.table import Reading, Table
from pspns.errors import DataError

# Above it a number is taken for seconds since 1970 (1e8 is in March 1973), not for a rating.
_TIME_ABOVE = 1e8


def read(path: Path, how: Reading) -> Table:
    """The table in a delimited text file; ids are read as text, so that "007" survives."""
    layout = find_layout(TextFile(path, how.encoding), how)
    columns = (
        choose_columns(layout.names, how.columns, str(path))
        if layout.has_header
        else choose_positions(layout.width, how.columns, str(path))
    )
    if any("�" in layout.first_row[place] for place in columns.used) and (error := layout.file.not_utf8()):
        raise error
    if not layout.has_rows():
        raise DataError(f"{path}: no row below the header; expected at least one interaction")
    facts = layout.separator_fact(is_asked=how.separator is not None)
    if not layout.has_header:
        facts = (*facts, f"no header line: the {layout.width} columns go by their positions")
        if not how.columns and layout.width == 3:
            columns = _tell_rating_from_time(columns, next(_frames(layout, [2])).to_series())
    return Table.from_columns(
        str(path), columns, lambda: _rows_alone(layout, columns.used), layout.line_of, how.time_format, facts
    )


def _rows_alone(layout: Layout, places: list[int]) -> Iterator[pl.DataFrame]:
    """As `_frames`; a header that comes again is refused, for it would become a user with an item."""
    if not layout.has_header:
        yield from _frames(layout, places)
        return
    # Where two files were joined, the mark that UTF-8 files may begin with stands before the second header.
    names = {str(place): (layout.first_row[place], f"\ufeff{layout.first_row[place]}") for place in places}
    is_header = pl.all_horizontal(
        (pl.col(key) == name) | (pl.col(key) == marked) for key, (name, marked) in names.items()
    )
    rows_before = 0
    for frame in _frames(layout, places):
        again = frame.select(is_header).to_series()
        if again.any():
            line = layout.line_of(rows_before + int(again.arg_max() or 0))
            raise DataError(f"{layout.file}, {line}: repeats the header; leave that line out")
        yield frame
        rows_before += frame.height


def _frames(layout: Layout, places: list[int]) -> Iterator[pl.DataFrame]:
    """The columns at these places, as text, block by block."""
    with errors_name(layout.file.path), _lines_named(layout), closing(_open(layout)) as stream:
        # Arrow, because polars fills rows that are too short with nulls; here they are refused.
        for batch in arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(
                column_names=[str(place) for place in range(layout.width)],
                skip_rows_after_names=layout.first_line - 1 + layout.has_header,
                block_size=LONGEST_LINE,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.separator if len(layout.separator) == 1 else UNIT_SEPARATOR,
                quote_char='"' if layout.has_quotes else False,
                newlines_in_values=layout.has_quotes,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=[str(place) for place in places],
                column_types={str(place): pa.string() for place in places},
            ),
        ):
            if not batch.num_rows:
                continue
            frame = cast(pl.DataFrame, pl.from_arrow(batch))
            if len(layout.separator) > 1 and layout.has_quotes:
                # Inside quotes it was no separator, and an id is never changed.
                frame = frame.with_columns(pl.all().str.replace_all(UNIT_SEPARATOR, layout.separator, literal=True))
            yield frame


def _open(layout: Layout) -> BinaryIO:
    stream = layout.file.open_bytes()
    if len(layout.separator) == 1:
        return stream
    return cast(BinaryIO, io.BufferedReader(_Replaced(stream, layout.separator.encode(), UNIT_SEPARATOR.encode())))


class _Replaced(io.RawIOBase):
    """A stream in which one word is replaced by another, shorter one."""

    def __init__(self, stream: BinaryIO, word: bytes, by: bytes) -> None:
        self._stream, self._word, self._by = stream, word, by
        self._held = b""  # the end of what was read, which may be the begin of the word

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            block = self._stream.read(len(buffer) - len(self._held))
            content = (self._held + block).replace(self._word, self._by)
            n_held = 0
            if block:
                n_held = next(n for n in range(len(self._word) - 1, -1, -1) if content.endswith(self._word[:n]))
            n_ready = len(content) - n_held
            self._held = content[n_ready:]
            if n_ready or not block:
                buffer[:n_ready] = content[:n_ready]
                return n_ready

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextmanager
def _lines_named(layout: Layout) -> Iterator[None]:
    """Errors that name the line at fault, which Arrow's do not."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise _ragged(layout) or layout.file.not_utf8() or _too_long(layout, error) from error


def _ragged(layout: Layout) -> DataError | None:
    for line, row in numbered_rows(layout.file, layout.separator):
        if len(row) != layout.width:
            return DataError(
                f"{layout.file}, line {line:,}: {len(row)} column{'s' if len(row) != 1 else ''}, expected "
                f"{layout.width} as in line {layout.first_line} (separator: {separator_name(layout.separator)}); "
                f"mend the line, or set format to 'lines' if each line is a user followed by their items"
            )
    return None


def _too_long(layout: Layout, error: pa.ArrowInvalid) -> DataError:
    """What else Arrow refuses: a row that does not fit into two of its blocks."""
    rows = numbered_rows(layout.file, layout.separator)
    length, line = max((sum(len(cell.encode()) for cell in row), line) for line, row in rows)
    if length < LONGEST_LINE:
        return DataError(f"{layout.file}: cannot be read: {in_one_line(error)}")
    return DataError(
        f"{layout.file}, line {line:,}: the row is {length:,} bytes long; expected at most {LONGEST_LINE >> 20} MiB"
    )


def _tell_rating_from_time(columns: Columns, third: pl.Series) -> Columns:
    middle = as_numbers(third).median()
    # Values that are no numbers at all can only be dates.
    is_time = middle is None or (isinstance(middle, float) and middle > _TIME_ABOVE)
    return replace(columns, rating=None, time=2) if is_time else columns
