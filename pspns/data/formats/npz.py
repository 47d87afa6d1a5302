"""Sparse matrices as scipy's `save_npz` writes them; every value that is not zero is an interaction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse

from pspns.data.npz_files import check_npz
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError

SUFFIXES = (".npz",)


def read(path: Path, how: Reading) -> Table:
    """Row numbers are the users' ids, column numbers the items'."""
    given = [name for name, value in vars(how).items() if value is not None]
    if given:
        raise SettingsError(f"{path}: {' and '.join(given)} cannot be set for a sparse matrix; leave out")
    names = check_npz(path)
    if "format" not in names or "shape" not in names:
        raise DataError(
            f"{path}: holds the arrays {', '.join(sorted(names)) or 'none'}; expected a sparse matrix as scipy's "
            "save_npz writes it"
        )
    try:
        matrix = sparse.load_npz(path)
        if matrix.format in ("csr", "csc"):
            matrix.check_format(full_check=True)
        entries = sparse.coo_array(matrix)
        entries.sum_duplicates()
        rows, columns = entries.coords
    except (ValueError, TypeError, KeyError, NotImplementedError, IndexError, MemoryError, OverflowError) as error:
        raise DataError(f"{path}: not a sparse matrix, or a damaged one ({error})") from error
    stored = entries.data != 0
    pairs = pl.DataFrame({"user": rows[stored].astype(np.int64), "item": columns[stored].astype(np.int64)})
    return Table(
        source=str(path),
        labels={"user": "row", "item": "column"},
        pieces=lambda: iter([pairs] if pairs.height else []),
        where=lambda row: f"entry {row + 1:,}",
        facts=(f"a sparse matrix of {matrix.shape[0]:,} × {matrix.shape[1]:,}: rows are users, columns items",),
    )
