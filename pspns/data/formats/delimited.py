"""Tables as text: CSV, TSV and other separators, with or without a header."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow_csv

from pspns.data.columns import Columns, choose_columns, choose_positions
from pspns.data.formats._layout import SEPARATORS, UNIT_SEPARATOR, Layout, find_layout, numbered_rows
from pspns.data.formats._text import errors_name, not_utf8, open_bytes
from pspns.data.series import as_numbers
from pspns.data.table import Reading, Table
from pspns.errors import DataError

_BLOCK_BYTES = 4 << 20  # a longer row is refused
# Above it a number is taken for seconds since 1970 (1e8 is in March 1973), not for a rating.
_TIME_ABOVE = 1e8


def read(path: Path, how: Reading) -> Table:
    """The table in a delimited text file; ids are read as text, so that "007" survives."""
    with errors_name(path):
        layout = find_layout(path, how.header, how.columns)
        columns = (
            choose_columns(layout.first_row, how.columns, str(path))
            if layout.has_header
            else choose_positions(layout.width, how.columns, str(path))
        )
        texts = _parse(layout, columns.used)
    facts = layout.separator_fact()
    if not layout.has_header:
        facts = (*facts, f"no header line: the {layout.width} columns go by their positions")
        if not how.columns and layout.width == 3:
            columns = _tell_rating_from_time(columns, texts["2"])
    return Table.from_columns(str(path), columns, lambda place: texts[str(place)], layout.line_of, facts)


def _parse(layout: Layout, places: list[int]) -> pl.DataFrame:
    """The columns at these places, as text, named by their places."""
    if not layout.has_rows():
        raise DataError(f"{layout.path}: no row below the header; expected at least one interaction")
    names = [str(place) for place in places]
    try:
        # Arrow, because polars fills rows that are too short with nulls; here they are refused.
        table = arrow_csv.read_csv(
            _source(layout),
            read_options=arrow_csv.ReadOptions(
                column_names=[str(place) for place in range(layout.width)],
                skip_rows_after_names=layout.first_line - 1 + layout.has_header,
                block_size=_BLOCK_BYTES,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.separator if len(layout.separator) == 1 else UNIT_SEPARATOR,
                quote_char='"' if layout.has_quotes else False,
                newlines_in_values=layout.has_quotes,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.string())
            ),
        )
    except pa.ArrowInvalid as error:
        raise _explain(layout, error) from error
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _source(layout: Layout) -> BinaryIO:
    stream = open_bytes(layout.path)
    if len(layout.separator) == 1:
        return stream
    with stream:
        return io.BytesIO(stream.read().replace(layout.separator.encode(), UNIT_SEPARATOR.encode()))


def _explain(layout: Layout, error: Exception) -> DataError:
    """The error that names the line at fault, which Arrow's does not."""
    for line, row in numbered_rows(layout.path, layout.separator):
        if len(row) != layout.width:
            return DataError(
                f"{layout.path}, line {line:,}: {len(row)} column{'s' if len(row) != 1 else ''}, expected "
                f"{layout.width} as in line {layout.first_line} (separator: {SEPARATORS[layout.separator]}); "
                f"mend the line, or set format to 'lines' if each line is a user followed by their items"
            )
    return not_utf8(layout.path) or DataError(f"{layout.path}: {error}")


def _tell_rating_from_time(columns: Columns, third: pl.Series) -> Columns:
    middle = as_numbers(third).median()
    # Values that are no numbers at all can only be dates.
    is_time = middle is None or (isinstance(middle, float) and middle > _TIME_ABOVE)
    return replace(columns, rating=None, time=2) if is_time else columns
