from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pspns.out_of_core import sorted_rows
from pspns.out_of_core.number_file import NumberFile
from pspns.out_of_core.sorted_rows import SpilledRows


def spilled(folder: Path, users: np.ndarray, items: np.ndarray, n_pieces: int) -> SpilledRows:
    rows = SpilledRows(folder)
    for some_users, some_items in zip(np.array_split(users, n_pieces), np.array_split(items, n_pieces), strict=True):
        rows.add(some_users.astype(np.uint32), some_items.astype(np.uint32))
    return rows


@pytest.mark.parametrize("at_once", [7, 100, 10_000])
def test_every_pair_once_sorted_under_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(sorted_rows, "ROWS_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=900), rng.integers(20, size=900)
    users[rng.random(900) < 0.3] = 4  # more rows than a part has, most of them repeats
    user_places, item_places = rng.permutation(30), rng.permutation(20)
    rows = spilled(tmp_path, users, items, n_pieces=13)
    matrix = rows.sorted(user_places, item_places)
    expected = sorted({(user_places[user], item_places[item]) for user, item in zip(users, items, strict=True)})
    found = matrix.pairs_of(0, 30)
    assert list(zip(found.users.tolist(), found.items.tolist(), strict=True)) == expected
    assert rows.n_rows == 900
    assert matrix.item_degrees.tolist() == np.bincount([item for _, item in expected], minlength=20).tolist()
    # Nothing waits on disk any more but the matrix.
    assert [path.name for path in tmp_path.iterdir()] == ["items"]


def test_parts_are_of_about_one_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "ROWS_AT_ONCE", 10)
    sizes: list[int] = []
    remove = NumberFile.remove

    def noted(file: NumberFile) -> None:
        sizes.append(sum(map(len, file.pieces(1000))))
        remove(file)

    monkeypatch.setattr(NumberFile, "remove", noted)
    users = np.repeat(np.arange(25), 4)
    spilled(tmp_path, users, np.tile(np.arange(4), 25), n_pieces=2).sorted(np.arange(25), np.arange(4))
    all_rows, *parts = sizes
    assert all_rows == 2 * sum(parts) == 200
    assert len(parts) == 10
    assert max(parts) <= 10 + 4
