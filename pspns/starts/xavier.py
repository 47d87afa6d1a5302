"""Xavier start: uniform, spread so that signals keep their size through a layer (Glorot and Bengio 2010)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.shapes import World


@dataclass(frozen=True, kw_only=True)
class XavierStart:
    def embeddings(
        self, world: World, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """User and item vectors, each table uniform on ±√(6 / (rows + size))."""
        users, items = (
            rng.uniform(-1, 1, (n_rows, size)) * np.sqrt(6 / (n_rows + size))
            for n_rows in (world.n_users, world.n_items)
        )
        return users.astype(np.float32), items.astype(np.float32)


COMPONENT = XavierStart
