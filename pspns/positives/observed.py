"""The observed pairs, once each: what every recommender trains on unless told otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class ObservedPositives:
    """The paper's row 1-hop."""

    def build(self, ground: Ground) -> PositivePairs:
        n_pairs = len(ground.train)
        return PositivePairs(
            users=ground.train.users,
            items=ground.train.items,
            copies=np.ones(n_pairs, dtype=np.uint8),
            pair_weights=np.ones(n_pairs, dtype=np.float32),
            is_observed=np.ones(n_pairs, dtype=bool),
            is_global=np.zeros(n_pairs, dtype=bool),
        )


COMPONENT = ObservedPositives
