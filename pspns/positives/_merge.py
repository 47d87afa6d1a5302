"""Merging what was observed with what the global pattern proposes (equation 4 of the paper)."""

from __future__ import annotations

import numpy as np

from pspns.data.interactions import Ints
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.shapes import Ground, PositivePairs

MOST_COPIES = 255  # copies are bytes


def merge(ground: Ground, proposed: Pairs) -> PositivePairs:
    """Every pair that is observed or proposed, once, and which of the two it is."""
    from pspns.kernels.merging import merge_rows  # waits for numba, which not every run needs

    observed = ground.train
    starts, proposed_starts = _starts(observed, ground.n_users), _starts(proposed, ground.n_users)
    sizes = np.diff(starts) + np.diff(proposed_starts) - n_common(ground.n_users, observed, proposed)
    n_pairs = int(sizes.sum())
    items = np.empty(n_pairs, dtype=np.int64)
    is_observed, is_global = np.empty(n_pairs, dtype=np.bool_), np.empty(n_pairs, dtype=np.bool_)
    merged_starts = np.concatenate(([0], np.cumsum(sizes)))
    merge_rows(starts, observed.items, proposed_starts, proposed.items, merged_starts, items, is_observed, is_global)
    return PositivePairs(
        users=np.repeat(np.arange(ground.n_users), sizes),
        items=items,
        copies=np.ones(n_pairs, dtype=np.uint8),
        pair_weights=np.ones(n_pairs, dtype=np.float32),
        is_observed=is_observed,
        is_global=is_global,
    )


def n_common(n_users: int, one: Pairs, other: Pairs) -> Ints:
    """How many pairs of each user are in both."""
    from pspns.kernels.merging import count_common

    counts = np.empty(n_users, dtype=np.int64)
    count_common(_starts(one, n_users), one.items, _starts(other, n_users), other.items, counts)
    return counts


def _starts(pairs: Pairs, n_users: int) -> Ints:
    """Where each user's pairs begin, and where the last one's end."""
    return np.searchsorted(pairs.users, np.arange(n_users + 1))


def check_copies(copies: int) -> None:
    if not 1 <= copies <= MOST_COPIES:
        raise SettingsError(f"copies must be between 1 and {MOST_COPIES}, got {copies}; change [positives] copies")
