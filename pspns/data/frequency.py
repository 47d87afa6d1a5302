"""Users and items that occur too rarely, left out until none is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pspns.data.interactions import Interactions
from pspns.errors import DataError, SettingsError


def leave_out_rare(pairs: Interactions, *, min_user_pairs: int = 1, min_item_pairs: int = 1) -> Interactions:
    """What is left when every user has at least so many pairs and every item, too; both k: the k-core.

    >>> pairs = Interactions.from_arrays(["a", "a", "b", "b", "c"], [1, 2, 1, 2, 3])
    >>> leave_out_rare(pairs, min_item_pairs=2).user_ids.tolist()
    ['a', 'b']
    """
    for name, least in (("min_user_pairs", min_user_pairs), ("min_item_pairs", min_item_pairs)):
        if least < 1:
            raise SettingsError(f"{name} must be at least 1, got {least}")
    users, items = pairs.users, pairs.items
    kept = np.arange(len(pairs))
    while True:
        # Leaving a user out can make an item rare, and the other way round.
        enough = (np.bincount(users)[users] >= min_user_pairs) & (np.bincount(items)[items] >= min_item_pairs)
        if enough.all():
            break
        users, items, kept = users[enough], items[enough], kept[enough]
    wanted = f"at least {min_user_pairs:,} pairs for each user and {min_item_pairs:,} for each item"
    if len(kept) == 0:
        raise DataError(f"nothing is left with {wanted}; lower min_user_pairs, min_item_pairs or core")
    rest = replace(pairs, users=users, items=items, times=None if pairs.times is None else pairs.times[kept])
    rest = rest.without_unused_ids()
    if len(rest) == len(pairs):
        return pairs
    n_pairs = len(pairs) - len(rest)
    n_users, n_items = len(pairs.user_ids) - len(rest.user_ids), len(pairs.item_ids) - len(rest.item_ids)
    fact = f"{n_pairs:,} of {len(pairs):,} pairs, {n_users:,} users and {n_items:,} items left out: {wanted}"
    return replace(rest, facts=(*pairs.facts, fact))
