"""Equal users: d̄ / d, so that every user counts the same in an epoch, as where a loop draws users first, then items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Ints


@dataclass(frozen=True, kw_only=True)
class EqualUsersWeighting:
    """d̄ is the mean of users with pairs; the mean over all pairs is 1, so that L2 keeps its share of the loss."""

    def weights(self, n_pairs: Ints) -> NDArray[np.float32]:
        """`[n_users]`; a user without pairs weighs 0."""
        has_pairs = n_pairs > 0
        mean = n_pairs[has_pairs].mean() if has_pairs.any() else 0.0
        return np.where(has_pairs, mean / np.maximum(n_pairs, 1), 0).astype(np.float32)


COMPONENT = EqualUsersWeighting
