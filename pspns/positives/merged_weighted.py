"""Observed and proposed pairs together, those that are both counting more in the loss instead of coming in copies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pspns.errors import SettingsError
from pspns.positives._merge import merge
from pspns.positives._proposals import GlobalPattern
from pspns.shapes import Ground, PositivePairs

# Times a user's weight it must still be a float32.
MOST_WEIGHT = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MergedWeightedPositives(GlobalPattern):
    """The paper's row W-hop-lw."""

    agreed_weight: float = 3.0
    """How much a pair that is both observed and proposed counts in the loss, s in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.agreed_weight <= MOST_WEIGHT:
            raise SettingsError(
                f"agreed_weight must be above 0 and at most {MOST_WEIGHT:,}, got {self.agreed_weight:g}"
            )

    def build(self, ground: Ground) -> PositivePairs:
        merged = merge(ground, self.propose(ground))
        weights = np.where(merged.is_agreed, self.agreed_weight, 1).astype(np.float32)
        return replace(merged, pair_weights=weights)


COMPONENT = MergedWeightedPositives
