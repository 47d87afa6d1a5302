"""Inverse square root: 1 / √(1 + a·d). The paper names one (ISW) without a formula: this one is ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.interactions import Floats
from pspns.weightings._activity import ActivityWeighting


@dataclass(frozen=True, kw_only=True)
class InverseSqrtWeighting(ActivityWeighting):
    """Large sensitivities make the weights unequal (towards 1/√d), small ones make them alike."""

    def of(self, activity: Floats) -> Floats:
        return 1 / np.sqrt(1 + activity)


COMPONENT = InverseSqrtWeighting
