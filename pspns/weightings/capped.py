"""Capped reciprocal: 1 / max(1, a·d). The paper names one (CRW) without a formula: this one is ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.interactions import Floats
from pspns.weightings._activity import ActivityWeighting


@dataclass(frozen=True, kw_only=True)
class CappedWeighting(ActivityWeighting):
    """Users with up to 1/a pairs weigh 1, more active ones ever less."""

    def of(self, activity: Floats) -> Floats:
        return 1 / np.maximum(1, activity)


COMPONENT = CappedWeighting
