"""All pairs at random: 8 : 1 : 1 unless other shares are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Interactions
from pspns.data.split import Part
from pspns.data.splits._shares import check_shares, shares_text


@dataclass(frozen=True, kw_only=True)
class RandomSplit:
    valid_share: float = 0.1
    """Share of all pairs held out for validation."""
    test_share: float = 0.1
    """Share of all pairs held out for the test."""

    def __post_init__(self) -> None:
        check_shares(self.valid_share, self.test_share)

    def assign(self, interactions: Interactions, rng: np.random.Generator) -> NDArray[np.int8]:
        """The part of each pair."""
        n_pairs = len(interactions)
        n_valid, n_test = round(n_pairs * self.valid_share), round(n_pairs * self.test_share)
        parts = np.full(n_pairs, Part.TRAIN, dtype=np.int8)
        # Pairs are sorted by id, so the order of the file's rows cannot change the split.
        shuffled = rng.permutation(n_pairs)
        parts[shuffled[:n_valid]] = Part.VALID
        parts[shuffled[n_valid : n_valid + n_test]] = Part.TEST
        return parts

    def describe(self) -> str:
        return f"random {shares_text(self.valid_share, self.test_share)}"


COMPONENT = RandomSplit
