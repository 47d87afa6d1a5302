"""Normal start: every coordinate from N(0, spread²)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.errors import SettingsError
from pspns.shapes import World


@dataclass(frozen=True, kw_only=True)
class NormalStart:
    spread: float = 0.1
    """Standard deviation of each coordinate."""

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise SettingsError(f"spread must be above 0, got {self.spread:g}; raise [start] spread")

    def embeddings(
        self, world: World, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        users, items = (rng.normal(0, self.spread, (n_rows, size)) for n_rows in (world.n_users, world.n_items))
        return users.astype(np.float32), items.astype(np.float32)


COMPONENT = NormalStart
