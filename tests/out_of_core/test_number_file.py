from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pspns.out_of_core.number_file import NumberFile


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_what_was_appended_is_read(tmp_path: Path, dtype: type[np.integer]) -> None:
    file = NumberFile(tmp_path / "numbers", dtype)
    assert list(file.pieces(3)) == []
    for piece in ([5, 0, 2**31 - 1], [], [7], [8, 9]):
        file.append(np.array(piece, dtype=np.int64))
    assert file.read(1, 5).tolist() == [0, 2**31 - 1, 7, 8]
    assert file.read(1, 5).dtype == dtype
    assert [piece.tolist() for piece in file.pieces(4)] == [[5, 0, 2**31 - 1, 7], [8, 9]]
    file.remove()
    assert list(tmp_path.iterdir()) == []
