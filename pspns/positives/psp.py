"""Positive sample pairs (PSP): observed and proposed pairs together, those that are both in several copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pspns.positives._merge import check_copies, merge
from pspns.positives._proposals import GlobalPattern
from pspns.search_space import Choices, Space
from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class PspPositives(GlobalPattern):
    """The paper's construction: its row W-ew without user weights, PSP-NS with the weighting `log`."""

    copies: int = 3
    """How often an epoch visits a pair that is both observed and proposed, s in the paper."""

    search: ClassVar[Space] = {**GlobalPattern.search, "copies": Choices((2, 3, 5))}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_copies(self.copies)

    def build(self, ground: Ground) -> PositivePairs:
        merged = merge(ground, self.propose(ground))
        return replace(merged, copies=np.where(merged.is_agreed, np.uint8(self.copies), np.uint8(1)))


COMPONENT = PspPositives
