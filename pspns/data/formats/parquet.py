"""Parquet files; only the columns that have a role are read."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

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
        source = path if unpacked_name(path) == path else io.BytesIO(open_bytes(path).read())
        try:
            names = list(pl.read_parquet_schema(source))
            columns = choose_columns(names, how.columns, str(path))
            frame = pl.read_parquet(source, columns=[names[place] for place in columns.used])
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path}: not a Parquet file, or a damaged one ({error})") from error
    return Table.from_columns(str(path), columns, lambda place: frame[names[place]], row_number)
