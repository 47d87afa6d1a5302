"""A file of whole numbers, one after the other, written at its end and read in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NumberFile:
    """Numbers of one type on disk.

    Read into memory of their own, not mapped: pages of a mapped file would count as the process's memory. Opened for
    each piece: there may be more such files than may be open at a time.
    """

    def __init__(self, path: Path, dtype: type[np.integer[Any]]):
        self._path, self._dtype = path, np.dtype(dtype)
        path.touch()

    def append(self, numbers: NDArray[np.integer[Any]]) -> None:
        with self._path.open("ab") as file:
            numbers.astype(self._dtype, copy=False).tofile(file)

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Those from place `first` to before `last`."""
        return np.fromfile(self._path, self._dtype, last - first, offset=self._dtype.itemsize * first)

    def pieces(self, size: int) -> Iterator[NDArray[Any]]:
        """All of them, `size` at a time."""
        with self._path.open("rb") as file:
            while len(piece := np.fromfile(file, self._dtype, size)):
                yield piece

    def remove(self) -> None:
        self._path.unlink()
