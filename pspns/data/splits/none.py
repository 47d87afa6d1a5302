"""No split: everything is train, for refitting once the settings are chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Interactions
from pspns.data.split import Part


@dataclass(frozen=True, kw_only=True)
class NoSplit:
    def assign(self, interactions: Interactions, rng: np.random.Generator) -> NDArray[np.int8]:
        """The part of each pair."""
        return np.full(len(interactions), Part.TRAIN, dtype=np.int8)

    def describe(self) -> str:
        return "everything in train"


COMPONENT = NoSplit
