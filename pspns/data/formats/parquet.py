"""Parquet files; only the columns that have a role are read, a few rows at a time."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import compute, parquet

from pspns.data.columns import choose_columns
from pspns.data.formats._text import in_one_line, open_bytes, unpacked_name
from pspns.data.series import from_arrow
from pspns.data.table import Reading, Table, row_number
from pspns.errors import DataError, PspnsError, SettingsError

SUFFIXES = (".parquet", ".pq")

_ROWS_AT_ONCE = 1 << 18
# Rows cost bits, not bytes, where a file repeats itself; a file of few bytes that claims billions is made to do harm.
_ROWS_FREELY = 10_000_000
_ROWS_PER_BYTE = 8
_UNPACKED_FREELY = 64 << 20
_UNPACKED_PER_BYTE = 100
_LONG_TEXT = 100  # bytes


def read(path: Path, how: Reading) -> Table:
    """The table in a Parquet file."""
    given = [name for name in ("header", "separator", "encoding") if getattr(how, name) is not None]
    if given:
        raise SettingsError(f"{path}: {' and '.join(given)} cannot be set for a Parquet file; leave out")
    with _opened(path) as (file, n_bytes):
        names = list(file.schema_arrow.names)
        columns = choose_columns(names, how.columns, str(path))
        _refuse_bombs(file.metadata, n_bytes, path)
        texts = [names[place] for place in columns.used if _is_text(file.schema_arrow.field(place).type)]
    long_texts = _with_long_texts(path, texts)
    # Names may repeat: each with how many of the same come before it.
    wanted = [(names[place], names[:place].count(names[place])) for place in columns.used]
    return Table.from_columns(
        str(path), columns, lambda: _frames(path, wanted, long_texts), row_number, how.time_format
    )


def _frames(path: Path, wanted: Sequence[tuple[str, int]], long_texts: Sequence[str]) -> Iterator[pl.DataFrame]:
    with _opened(path, long_texts) as (file, _):
        n_rows = 0
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=[name for name, _ in wanted]):
            # Arrow trusts the file and polars trusts Arrow: bytes that are no text would end the process.
            batch.validate(full=True)
            n_rows += batch.num_rows
            if batch.num_rows:
                places = [batch.schema.get_all_field_indices(name)[number] for name, number in wanted]
                yield pl.DataFrame([_series(batch.column(place)).alias(str(place)) for place in places])
        if n_rows != file.metadata.num_rows:
            raise DataError(f"{path}: claims {file.metadata.num_rows:,} rows and holds {n_rows:,}; write it again")


def _series(column: Any) -> pl.Series:
    if pa.types.is_dictionary(column.type):
        return _series(column.dictionary).gather(_series(column.indices))
    if pa.types.is_timestamp(column.type) and column.type.tz:
        # A moment is the same in every zone, and polars does not know all that Arrow does.
        column = column.cast(pa.timestamp(column.type.unit))
    return from_arrow(column)


def _refuse_bombs(metadata: Any, n_bytes: int, path: Path) -> None:
    if metadata.num_rows > _ROWS_FREELY + _ROWS_PER_BYTE * n_bytes:
        raise DataError(
            f"{path}: claims {metadata.num_rows:,} rows in {n_bytes:,} bytes, as files do that are made to fill a "
            "memory; if it is what you want, write each pair once"
        )
    # The sizes of single columns would tell more, but pyarrow ends the process where a file lies about them.
    n_unpacked = max((metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)), default=0)
    if n_unpacked > _UNPACKED_FREELY + _UNPACKED_PER_BYTE * n_bytes:
        raise DataError(
            f"{path}: unpacks to {n_unpacked:,} bytes from {n_bytes:,}, as files do that are made to fill a memory; if "
            "it is what you want, write it without compression"
        )


def _with_long_texts(path: Path, texts: Sequence[str]) -> list[str]:
    """Columns whose dictionaries hold a long text: written out for each row, one MB can fill a memory."""
    if not texts:
        return []
    found: set[str] = set()
    with _opened(path, texts) as (file, _):
        for group in range(file.num_row_groups):
            for first_row in itertools.islice(file.iter_batches(batch_size=1, row_groups=[group], columns=texts), 1):
                for name, column in zip(first_row.schema.names, first_row.columns, strict=True):
                    if pa.types.is_dictionary(column.type) and _longest(column.dictionary) > _LONG_TEXT:
                        found.add(name)
    return sorted(found)


def _longest(texts: Any) -> int:
    return compute.max(compute.binary_length(texts)).as_py() or 0


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


@contextmanager
def _opened(path: Path, as_dictionaries: Sequence[str] = ()) -> Iterator[tuple[Any, int]]:
    """The file, and how many bytes it has; what Arrow and polars refuse becomes a DataError that begins with it."""
    try:
        if unpacked_name(path) == path and path.is_file():
            with closing(_parquet_file(path, as_dictionaries)) as file:
                yield file, path.stat().st_size
        else:
            # On disk: readers jump about in the file, and what is packed may be large.
            with tempfile.TemporaryFile() as unpacked:
                with closing(open_bytes(path)) as stream:
                    shutil.copyfileobj(stream, unpacked, 1 << 20)
                n_bytes = unpacked.tell()
                yield _parquet_file(unpacked, as_dictionaries), n_bytes
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, OverflowError, KeyError) as error:
        if isinstance(error, PspnsError):
            raise
        raise DataError(
            f"{path}: not a Parquet file, or a damaged one ({in_one_line(error)}); get it or write it again"
        ) from error


def _parquet_file(source: Any, as_dictionaries: Sequence[str]) -> Any:
    return parquet.ParquetFile(source, read_dictionary=list(as_dictionaries), page_checksum_verification=True)
