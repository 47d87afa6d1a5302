"""Parquet files of a run's folder, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet


def read_table(path: Path) -> pa.Table:
    """The whole table, or an OSError, a ValueError or an ArrowException.

    Not by polars, and validated: a file made for it stops the whole process there; here it is an error.
    """
    with parquet.ParquetFile(path) as file:
        table = file.read()
    table.validate(full=True)
    return table
