"""Groups of users by how active they were in train, ties to the lower user number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pspns.errors import DataError, SettingsError


def least_active(train_counts: NDArray[np.integer], n: int) -> NDArray[np.int64]:
    """The n users with the fewest train pairs, by number, ascending.

    >>> least_active(np.array([5, 1, 9, 5]), n=2).tolist()
    [0, 1]
    """
    by_activity = _by_activity(train_counts)
    if not 1 <= n <= len(by_activity):
        raise SettingsError(
            f"the group of least active users must have between 1 and {len(by_activity):,} users (all there "
            f"are), got {n:,}"
        )
    return np.sort(by_activity[:n])


def deciles(train_counts: NDArray[np.integer]) -> NDArray[np.int8]:
    """The tenth of the users to which each belongs, 0 the least active; sizes differ by at most one.

    >>> deciles(np.array([70, 10, 40, 20, 90, 30, 80, 60, 50, 100])).tolist()
    [6, 0, 3, 1, 8, 2, 7, 5, 4, 9]
    """
    by_activity = _by_activity(train_counts)
    decile = np.empty(len(by_activity), dtype=np.int8)
    decile[by_activity] = np.arange(len(by_activity)) * 10 // len(by_activity)
    return decile


def _by_activity(train_counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """User numbers, the least active first."""
    if train_counts.ndim != 1 or train_counts.dtype.kind not in "iu" or len(train_counts) == 0:
        raise DataError(
            f"train counts must be a flat, non-empty array of whole numbers, one for each user; got "
            f"{train_counts.dtype} of shape {train_counts.shape}"
        )
    if train_counts.min() < 0:
        user = int(train_counts.argmin())
        raise DataError(f"user {user} has {train_counts[user]} train pairs; expected 0 or more")
    # Stable, so that among equal counts the lower number comes first.
    return np.argsort(train_counts, kind="stable")
