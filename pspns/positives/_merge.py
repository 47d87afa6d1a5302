"""Merging what was observed with what the global pattern proposes (equation 4 of the paper)."""

from __future__ import annotations

import numpy as np

from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.shapes import Ground, PositivePairs
from pspns.sorted_keys import are_in, distinct

MOST_COPIES = 255  # copies are bytes


def merge(ground: Ground, proposed: Pairs) -> PositivePairs:
    """Every pair that is observed or proposed, once, and which of the two it is."""
    observed_keys = ground.train.users * ground.n_items + ground.train.items
    proposed_keys = proposed.users * ground.n_items + proposed.items
    keys = distinct(np.concatenate((observed_keys, proposed_keys)))
    return PositivePairs(
        users=keys // ground.n_items,
        items=keys % ground.n_items,
        copies=np.ones(len(keys), dtype=np.uint8),
        pair_weights=np.ones(len(keys), dtype=np.float32),
        is_observed=are_in(keys, observed_keys),
        is_global=are_in(keys, proposed_keys),
    )


def check_copies(copies: int) -> None:
    if not 1 <= copies <= MOST_COPIES:
        raise SettingsError(f"copies must be between 1 and {MOST_COPIES}, got {copies}; change [positives] copies")
