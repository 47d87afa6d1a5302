"""Parquet files; only the columns that have a role are read."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from pspns.data.columns import choose_columns
from pspns.data.formats._text import errors_name, open_bytes, unpacked_name
from pspns.data.table import Reading, Table, row_number
from pspns.errors import DataError, SettingsError

SUFFIXES = (".parquet", ".pq")


def read(path: Path, how: Reading) -> Table:
    """The table in a Parquet file."""
    if how.header is not None:
        raise SettingsError(f"{path}: Parquet files have no header line; leave header out")
    with errors_name(path):
        content = None if unpacked_name(path) == path else open_bytes(path).read()

        def source() -> Path | io.BytesIO:
            return path if content is None else io.BytesIO(content)

        try:
            # Arrow's, because polars reads a bracket in the path as a pattern here and cannot be told not to.
            names = parquet.read_schema(source()).names
            columns = choose_columns(names, how.columns, str(path))
            frame = pl.read_parquet(source(), columns=[names[place] for place in columns.used], glob=False)
        except (pl.exceptions.PolarsError, pa.ArrowException) as error:
            raise DataError(f"{path}: not a Parquet file, or a damaged one ({error})") from error
    return Table.from_columns(str(path), columns, lambda place: frame[names[place]], row_number)
