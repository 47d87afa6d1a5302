"""What a .npz file claims to hold, checked before numpy believes it."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from pspns.errors import DataError

# As for packed text: a thousand times its size is a file made to fill a memory.
_UNPACKED_FREELY = 256 << 20
_UNPACKED_PER_BYTE = 200


def check_npz(path: Path) -> list[str]:
    """The names of its arrays; refused are objects, shapes that do not fit the bytes, and archives made to burst."""
    try:
        limit = _UNPACKED_FREELY + _UNPACKED_PER_BYTE * path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            if (claimed := sum(info.file_size for info in archive.infolist())) > limit:
                raise DataError(f"{path}: unpacks to {claimed:,} bytes, more than {_UNPACKED_PER_BYTE} times its size")
            for info in archive.infolist():
                with archive.open(info) as member:
                    _check_array(member, info, path)
            return [info.filename.removesuffix(".npy") for info in archive.infolist()]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{path}: is not a readable .npz file: {error}") from error


def _check_array(member: IO[bytes], info: zipfile.ZipInfo, path: Path) -> None:
    version = np.lib.format.read_magic(member)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(member)
    if dtype.hasobject:
        raise DataError(f"{path}: {info.filename} holds Python objects; expected numbers or text")
    if math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
        raise DataError(f"{path}: {info.filename} claims the shape {shape}, which does not fit its bytes")
