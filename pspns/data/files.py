"""One file to its table: the format as told, or by the file's suffix and content."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from pspns.data import formats
from pspns.data.formats import _layout, lines, npz, parquet
from pspns.data.formats._text import PACKED, TextFile, unpacked_name
from pspns.data.table import Reading, Table
from pspns.errors import DataError, unknown_name


def format_names() -> list[str]:
    """What `format` can be.

    >>> format_names()
    ['delimited', 'lines', 'npz', 'parquet']
    """
    return sorted(found.name for found in pkgutil.iter_modules(formats.__path__) if not found.name.startswith("_"))


def read_file(path: Path, how: Reading, format: str) -> Table:
    """The table in a file of this format."""
    if format not in format_names():
        raise unknown_name("format", format, format_names())
    table = importlib.import_module(f"{formats.__name__}.{format}").read(path, how)
    assert isinstance(table, Table)
    return table


def find_format(path: Path, encoding: str | None = None) -> str:
    """The format of a file, by its suffix; a `.txt` file is looked into."""
    suffix = unpacked_name(path).suffix.lower()
    if suffix in parquet.SUFFIXES:
        return "parquet"
    if suffix in npz.SUFFIXES:
        return "npz"
    if suffix == ".txt" and _is_lines(TextFile(path, encoding)):
        return "lines"
    if suffix in _layout.SUFFIXES:
        return "delimited"
    raise DataError(
        f"{path}: cannot tell the format from the suffix '{suffix}'; set format to one of "
        f"{', '.join(format_names())} (known suffixes: {', '.join(known_suffixes())}, "
        f"each perhaps with {' or '.join(PACKED)} behind)"
    )


def known_suffixes() -> list[str]:
    return sorted({*_layout.SUFFIXES, *parquet.SUFFIXES, *npz.SUFFIXES})


def _is_lines(file: TextFile) -> bool:
    return _layout.consistent_separator(file) in (None, " ") and lines.looks_like_lines(file)
