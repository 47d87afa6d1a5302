"""Generated interactions of any size with one profile: long tails of activity and popularity, and users with tastes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pspns.sorted_keys import distinct

Ints = NDArray[np.int64]

N_TASTES = 40
USERS_AT_ONCE = 20_000
# Of the rows drawn for a user some repeat; so many more are drawn than wanted.
DRAWN_FOR_ONE = 1.6


def crowd(n_users: int, n_items: int, n_pairs: int, seed: int = 0) -> Iterator[tuple[Ints, Ints]]:
    """Exactly `n_pairs` distinct pairs, in no order; in pieces, each with all pairs of some thousand users.

    A user's activity is log-normal, an item's popularity falls with its rank to the power −⅔. Half of a user's items
    are popular with everybody, half with those of the same taste.
    """
    rng = np.random.default_rng(seed)
    names = rng.permutation(n_users)  # whoever comes first has no low number
    for first in range(0, n_users, USERS_AT_ONCE):
        last = min(first + USERS_AT_ONCE, n_users)
        wanted = n_pairs * last // n_users - n_pairs * first // n_users
        keys = _distinct_pairs(rng, last - first, n_items, wanted)
        rng.shuffle(keys)
        yield names[first + keys // n_items], keys % n_items


def _distinct_pairs(rng: np.random.Generator, n_users: int, n_items: int, wanted: int) -> Ints:
    activity = rng.lognormal(sigma=0.8, size=n_users)
    degrees = np.ceil(DRAWN_FOR_ONE * wanted * activity / activity.sum()).astype(np.int64)
    tastes = rng.integers(N_TASTES, size=n_users)
    keys = np.empty(0, np.int64)
    while len(keys) < wanted:
        users = np.repeat(np.arange(n_users), degrees)
        ranks = (n_items * rng.random(len(users)) ** 3).astype(np.int64)
        shifts = np.where(rng.random(len(users)) < 0.5, 0, (1 + tastes[users]) * (n_items // (N_TASTES + 1)))
        keys = distinct(np.concatenate((keys, users * n_items + (ranks + shifts) % n_items)))
    return rng.choice(keys, wanted, replace=False)
