"""The observed pairs, several times each: a control for copies that know nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pspns.positives._merge import check_copies
from pspns.positives.observed import ObservedPositives
from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class RepeatedPositives:
    """The paper's row 1-hop*2."""

    copies: int = 2
    """How often an epoch visits each pair."""

    def __post_init__(self) -> None:
        check_copies(self.copies)

    def build(self, ground: Ground) -> PositivePairs:
        pairs = ObservedPositives().build(ground)
        return replace(pairs, copies=np.full(len(pairs), self.copies, dtype=np.uint8))


COMPONENT = RepeatedPositives
