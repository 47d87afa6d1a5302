"""Tables as text: CSV, TSV and other separators, with or without a header."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow_csv

from pspns.data.columns import Columns, choose_columns, choose_positions
from pspns.data.formats._layout import UNIT_SEPARATOR, Layout, find_layout, numbered_rows, separator_name
from pspns.data.formats._text import LONGEST_LINE, TextFile, errors_name, in_one_line
from pspns.data.series import as_numbers, from_arrow, plain_numbers
from pspns.data.table import Reading, Table
from pspns.errors import DataError

# Above it a number is taken for seconds since 1970 (1e8 is in March 1973), not for a rating.
_TIME_ABOVE = 1e8

_ROWS_LOOKED_AT = 200


def read(path: Path, how: Reading) -> Table:
    """The table in a delimited text file; ids are never changed: "007" survives."""
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
    kinds = _kinds(layout, columns, has_plain_times=how.time_format is None)
    return Table.from_columns(
        str(path), columns, lambda: _rows_alone(layout, columns.used, kinds), layout.line_of, how.time_format, facts
    )


@dataclass(frozen=True)
class _Kinds:
    """Columns that need not be text; numbers are read in less time."""

    numbers: tuple[int, ...] = ()  # come as finite floats
    ids: tuple[int, ...] = ()  # come as whole numbers in blocks where all are written as such


def _kinds(layout: Layout, columns: Columns, *, has_plain_times: bool) -> _Kinds:
    """What the first rows tell."""
    headers = pl.Series([layout.first_row[place] for place in columns.used])
    if layout.has_header and as_numbers(headers).null_count() < len(headers):
        return _Kinds()  # if it came again, it could not be told from a row
    places = [place for place in (columns.rating, columns.time if has_plain_times else None) if place is not None]
    rows = itertools.islice(numbered_rows(layout.file, layout.separator), int(layout.has_header), _ROWS_LOOKED_AT)
    first = [row for _, row in rows if len(row) == layout.width]  # others are complained of later
    numbers = (place for place in places if as_numbers(pl.Series([row[place] for row in first])).null_count() == 0)
    return _Kinds(tuple(numbers), (columns.user, columns.item))


def _rows_alone(layout: Layout, places: list[int], kinds: _Kinds) -> Iterator[pl.DataFrame]:
    """As `_frames`; a header that comes again is refused, for it would become a user with an item."""
    # Where two files were joined, the mark that UTF-8 files may begin with stands before the second header.
    names = {str(place): (layout.first_row[place], f"\ufeff{layout.first_row[place]}") for place in places}
    is_header = pl.all_horizontal(
        (pl.col(key) == name) | (pl.col(key) == marked) for key, (name, marked) in names.items()
    )
    rows_before = 0
    for frame in _frames(layout, places, kinds):
        # Where there are numbers there are no names.
        if layout.has_header and all(dtype == pl.String for dtype in frame.dtypes):
            again = frame.select(is_header).to_series()
            if again.any():
                line = layout.line_of(rows_before + int(again.arg_max() or 0))
                raise DataError(f"{layout.file}, {line}: repeats the header; leave that line out")
        yield frame
        rows_before += frame.height


def _frames(layout: Layout, places: list[int], kinds: _Kinds | None = None) -> Iterator[pl.DataFrame]:
    """The columns at these places, block by block, as text, but for those of other kinds.

    From the first block on in which a number is none, all come as text: what is wrong with them is told later.
    """
    n_blocks = 0
    with errors_name(layout.file.path), _lines_named(layout):
        if kinds is not None:
            with suppress(pa.ArrowInvalid):
                for frame in _blocks(layout, places, kinds):
                    yield frame
                    n_blocks += 1
                return
        # The same bytes are in the same blocks again.
        yield from itertools.islice(_blocks(layout, places, _Kinds()), n_blocks, None)


def _blocks(layout: Layout, places: list[int], kinds: _Kinds) -> Iterator[pl.DataFrame]:
    types = {str(place): pa.float64() if place in kinds.numbers else pa.string() for place in places}
    with closing(_open(layout)) as stream:
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
            convert_options=arrow_csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[]),
        ):
            if not batch.num_rows:
                continue
            ids = [str(place) for place in kinds.ids]
            columns = {name: (plain_numbers(batch[name]) if name in ids else None) or batch[name] for name in types}
            frame = pl.DataFrame({name: from_arrow(column) for name, column in columns.items()})
            if not all(frame[str(place)].is_finite().all() for place in kinds.numbers):
                raise pa.ArrowInvalid("infinite, or not a number")
            if len(layout.separator) > 1 and layout.has_quotes:
                # Inside quotes it was no separator, and an id is never changed.
                texts = pl.col(pl.String).str.replace_all(UNIT_SEPARATOR, layout.separator, literal=True)
                frame = frame.with_columns(texts)
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
