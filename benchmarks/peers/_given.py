"""What every rival is given: plain arrays in one .npz, so that a rival's venv needs numpy and nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Vectors = NDArray[np.float32]

SIZE, LAYERS, BATCH, K = 64, 3, 2048, 20
"""Length of a vector, layers of LightGCN, pairs in a step, length of a list: the same for everybody."""


@dataclass(frozen=True)
class Given:
    """Users and items are numbered from 0, and each has a train pair."""

    n_users: int
    n_items: int
    train: Ints  # [pairs, 2] user, item; sorted
    valid: Ints  # [pairs, 2]
    test: Ints  # [pairs, 2]
    user_vectors: Vectors  # [n_users, SIZE] for the ranking, and where LightGCN starts
    item_vectors: Vectors  # [n_items, SIZE]
    draw_for: Ints  # [draws] users who each want one negative
    epochs: int  # of matrix factorisation in one turn
    steps: int  # of LightGCN in one turn

    def write(self, path: Path) -> None:
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def read(cls, path: Path) -> Given:
        with np.load(path, allow_pickle=False) as arrays:
            found: dict[str, Any] = {name: array if array.ndim else int(array) for name, array in arrays.items()}
            return cls(**found)
