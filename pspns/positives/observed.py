"""The observed pairs, once each: what every recommender trains on unless told otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.split import Pairs
from pspns.shapes import PositivePairs


@dataclass(frozen=True, kw_only=True)
class ObservedPositives:
    def build(self, train: Pairs) -> PositivePairs:
        n_pairs = len(train)
        return PositivePairs(
            users=train.users,
            items=train.items,
            copies=np.ones(n_pairs, dtype=np.uint8),
            pair_weights=np.ones(n_pairs, dtype=np.float32),
            is_observed=np.ones(n_pairs, dtype=bool),
            is_global=np.zeros(n_pairs, dtype=bool),
        )


COMPONENT = ObservedPositives
