"""What a .npz file claims to hold, checked before numpy believes it."""

from __future__ import annotations

import lzma
import math
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from pspns.errors import DataError

Dtype = np.dtype[Any]

# As for packed text: a thousand times its size is a file made to fill a memory.
_UNPACKED_FREELY = 32 << 20
_UNPACKED_PER_BYTE = 200


_READING_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    IndexError,
    EOFError,
    OverflowError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)


def check_npz(path: Path) -> dict[str, Dtype]:
    """Its arrays and their kinds; refused are objects, shapes that do not fit the bytes, and archives made to burst."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is a folder, a pipe or a device; expected a .npz file")
    try:
        limit = _UNPACKED_FREELY + _UNPACKED_PER_BYTE * path.stat().st_size
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's word to those who still write with Python 2
            if (claimed := sum(info.file_size for info in archive.infolist())) > limit:
                raise DataError(
                    f"{path}: unpacks to {claimed:,} bytes, more than {_UNPACKED_PER_BYTE} times its size; write it "
                    "again without compression if it is what you want"
                )
            kinds = {}
            for info in archive.infolist():
                with archive.open(info) as member:
                    kinds[info.filename.removesuffix(".npy")] = _check_array(member, info, path)
            return kinds
    except _READING_ERRORS as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path}: is not a readable .npz file: {reason}; get it or write it again") from error


def _check_array(member: IO[bytes], info: zipfile.ZipInfo, path: Path) -> Dtype:
    version = np.lib.format.read_magic(member)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(member)
    if dtype.hasobject:
        raise DataError(f"{path}: {info.filename} holds Python objects; expected numbers or text")
    # Values of no size have any shape, and would fill a memory once they are listed.
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
        raise DataError(f"{path}: {info.filename} claims the shape {shape}, which does not fit its bytes")
    return dtype
