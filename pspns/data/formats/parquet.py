"""Parquet files; only the columns that have a role are read, a few rows at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from pspns.data.columns import choose_columns
from pspns.data.formats._text import open_bytes, unpacked_name
from pspns.data.table import Reading, Table, row_number
from pspns.errors import DataError, SettingsError

SUFFIXES = (".parquet", ".pq")

_ROWS_AT_ONCE = 1 << 18
# Rows cost bits, not bytes, where a file repeats itself; a file of few bytes that claims billions is made to do harm.
_ROWS_FREELY = 100_000_000
_ROWS_PER_BYTE = 20


def read(path: Path, how: Reading) -> Table:
    """The table in a Parquet file."""
    given = [name for name in ("header", "separator", "encoding") if getattr(how, name) is not None]
    if given:
        raise SettingsError(f"{path}: {' and '.join(given)} cannot be set for a Parquet file; leave out")
    with _damage_named(path):
        with closing(_open(path)) as file:
            names = list(file.schema_arrow.names)
            n_rows = file.metadata.num_rows
        columns = choose_columns(names, how.columns, str(path))
    if n_rows > _ROWS_FREELY + _ROWS_PER_BYTE * path.stat().st_size:
        raise DataError(f"{path}: claims {n_rows:,} rows in {path.stat().st_size:,} bytes; expected fewer")
    wanted = [names[place] for place in columns.used]
    return Table.from_columns(str(path), columns, lambda: _frames(path, wanted), row_number, how.time_format)


def _frames(path: Path, names: list[str]) -> Iterator[pl.DataFrame]:
    with _damage_named(path), closing(_open(path)) as file:
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=names):
            if batch.num_rows:
                yield cast(pl.DataFrame, pl.from_arrow(batch.select(names)))


def _open(path: Path) -> Any:
    if unpacked_name(path) == path and path.is_file():
        source: Any = path
    else:
        with closing(open_bytes(path)) as stream:
            source = io.BytesIO(stream.read())
    return parquet.ParquetFile(source, page_checksum_verification=True)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, OverflowError) as error:
        if isinstance(error, SettingsError):
            raise
        raise DataError(f"{path}: not a Parquet file, or a damaged one ({error})") from error
