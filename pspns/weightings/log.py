"""Logarithmic: 1 / ln(1 + a·d), the paper's weighting (equation 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.interactions import Floats
from pspns.weightings._activity import ActivityWeighting


@dataclass(frozen=True, kw_only=True)
class LogWeighting(ActivityWeighting):
    """Small sensitivities make the weights unequal (towards 1/d), large ones make them alike."""

    def of(self, activity: Floats) -> Floats:
        return 1 / np.log1p(activity)


COMPONENT = LogWeighting
