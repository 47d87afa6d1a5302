"""The order of a user's own pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Ints


def places_within_users(users: Ints, *keys: NDArray[np.generic]) -> Ints:
    """Each pair's place among the pairs of its user, from 0, by the first key, ties by the next.

    >>> places_within_users(np.array([0, 0, 1, 0]), np.array([5.0, 3.0, 9.0, 4.0])).tolist()
    [2, 0, 0, 1]
    """
    order = np.lexsort((*reversed(keys), users))
    counts = np.bincount(users)
    first_of_user = np.cumsum(counts) - counts
    places = np.empty(len(users), dtype=np.int64)
    places[order] = np.arange(len(users)) - first_of_user[users[order]]
    return places
