"""Parquet files of a run's folder, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet


def write_table(table: pa.Table, path: Path) -> None:
    """With checksums, which polars does not write: a changed figure is found out."""
    parquet.write_table(table, path, write_page_checksum=True)


def read_table(path: Path) -> pa.Table:
    """The whole table, or an OSError, a ValueError or an ArrowException.

    Not by polars, and validated: a file made for it stops the whole process there; here it is an error.
    """
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read()
    table.validate(full=True)
    return table
