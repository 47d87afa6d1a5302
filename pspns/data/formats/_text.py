"""Text files, packed or not: opening them, and the error where their bytes are not UTF-8."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import pyarrow as pa

from pspns.errors import DataError

PACKED = (".gz", ".zst")


def unpacked_name(path: Path) -> Path:
    """The path without the suffix of a compression.

    >>> unpacked_name(Path("ratings.csv.gz")).name
    'ratings.csv'
    """
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def open_bytes(path: Path) -> BinaryIO:
    """The file's content as a stream of bytes, unpacked where its suffix says it is packed."""
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    return cast(BinaryIO, pa.input_stream(str(path), compression=packing))


def open_text(path: Path) -> TextIO:
    """Lines as they end in the file; bytes that are not UTF-8 become �, to be complained of elsewhere."""
    return io.TextIOWrapper(
        io.BufferedReader(cast(io.RawIOBase, open_bytes(path))),
        encoding="utf-8-sig",
        errors="replace",
        newline="",
    )


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """What the operating system or a decompressor refuses becomes a DataError that begins with the path."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def not_utf8(path: Path) -> DataError | None:
    """The error for the first line that is not UTF-8, if there is one."""
    with open_bytes(path) as stream:
        for number, line in enumerate(io.BufferedReader(cast(io.RawIOBase, stream)), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return DataError(
                    f"{path}, line {number}: byte {line[error.start]:#04x} is not UTF-8; "
                    f"expected a UTF-8 file, save it as one"
                )
    return None
