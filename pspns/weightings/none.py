"""No weighting: every user's pairs count the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Ints


@dataclass(frozen=True, kw_only=True)
class NoWeighting:
    def weights(self, n_pairs: Ints) -> NDArray[np.float32]:
        """`[n_users]`: 1, and 0 for a user without pairs."""
        return (n_pairs > 0).astype(np.float32)


COMPONENT = NoWeighting
