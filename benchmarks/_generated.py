"""Generated pairs of any size: users keep to a few tastes, degrees and popularity are skewed."""

from __future__ import annotations

import numpy as np

from pspns.data.split import Pairs
from pspns.sorted_keys import distinct

N_TASTES = 50
SHARE_BY_TASTE = 0.8


def tasteful_pairs(n_users: int, n_items: int, n_pairs: int, seed: int = 0) -> Pairs:
    """About `n_pairs` distinct pairs in which every user and every item occurs."""
    rng = np.random.default_rng(seed)
    activity = rng.lognormal(sigma=1.0, size=n_users)
    users = np.sort(rng.choice(n_users, size=n_pairs, p=activity / activity.sum()))
    # A taste is every N_TASTES-th item, so that numbers tell nothing; lower places in it are more popular.
    n_places = -(-n_items // N_TASTES)
    places = (n_places * rng.beta(0.7, 3, size=n_pairs)).astype(np.int64)
    own_tastes = rng.integers(N_TASTES, size=(n_users, 3))[users, rng.integers(3, size=n_pairs)]
    is_by_taste = rng.random(n_pairs) < SHARE_BY_TASTE
    items = places * N_TASTES + np.where(is_by_taste, own_tastes, rng.integers(N_TASTES, size=n_pairs))
    keys = [
        users * n_items + items % n_items,
        np.arange(n_users) * n_items + rng.integers(n_items, size=n_users),
        rng.integers(n_users, size=n_items) * n_items + np.arange(n_items),
    ]
    found = distinct(np.concatenate(keys))
    return Pairs(found // n_items, found % n_items)
