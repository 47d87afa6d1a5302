"""Sparse matrices as scipy's `save_npz` writes them; every value that is not zero is an interaction."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from pathlib import Path

import polars as pl
from scipy import sparse

from pspns.data.formats._text import archive_of, in_one_line, unpacked_name
from pspns.data.interactions import matrix_pairs
from pspns.data.npz_files import check_npz
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError

SUFFIXES = (".npz",)

_ROWS_AT_ONCE = 1 << 18
_WHOLE_NUMBERS = ("shape", "indices", "indptr", "row", "col", "coords", "offsets")
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def read(path: Path, how: Reading) -> Table:
    """Row numbers are the users' ids, column numbers the items'."""
    given = [name for name, value in vars(how).items() if value is not None]
    if given:
        raise SettingsError(f"{path}: {' and '.join(given)} cannot be set for a sparse matrix; leave out")
    if unpacked_name(path) != path or archive_of(path):
        raise DataError(f"{path}: .npz files are packed already, and are read only as they are; unpack it first")
    kinds = check_npz(path)
    if "format" not in kinds or "shape" not in kinds:
        raise DataError(
            f"{path}: holds the arrays {', '.join(sorted(kinds)) or 'none'}; expected a sparse matrix as scipy's "
            "save_npz writes it"
        )
    for name in _WHOLE_NUMBERS:
        if name in kinds and kinds[name].kind not in "iu":
            raise DataError(f"{path}: {name}.npy holds {kinds[name]}; expected whole numbers, as save_npz writes them")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matrix = sparse.load_npz(path)
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        rows, columns = matrix_pairs(matrix)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except _DAMAGE as error:
        raise DataError(
            f"{path}: not a sparse matrix, or a damaged one ({in_one_line(error)}); write it again"
        ) from error
    pairs = pl.DataFrame({"user": rows, "item": columns})
    return Table(
        source=str(path),
        labels={"user": "row", "item": "column"},
        pieces=lambda: pairs.iter_slices(_ROWS_AT_ONCE),
        where=lambda row: f"entry {row + 1:,}",
        facts=(f"a sparse matrix of {matrix.shape[0]:,} × {matrix.shape[1]:,}: rows are users, columns items",),
    )
