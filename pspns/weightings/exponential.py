"""Exponential decay: exp(−a·d). The paper names one (EDW) without a formula: this one is ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.interactions import Floats
from pspns.weightings._activity import ActivityWeighting


@dataclass(frozen=True, kw_only=True)
class ExponentialWeighting(ActivityWeighting):
    """Large sensitivities silence active users: at a·d = 10 a user weighs 0.00005."""

    def of(self, activity: Floats) -> Floats:
        return np.exp(-activity)


COMPONENT = ExponentialWeighting
