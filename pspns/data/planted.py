"""Generated worlds: interactions of which we know what each user truly likes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pspns.data.interactions import Floats, Interactions, Ints
from pspns.errors import DataError, SettingsError, unknown_name

Kind = Literal["low-rank", "clustered", "unstructured"]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class PlantedWorld:
    """What was observed, and what is true; ids are the row and column numbers of `preferences`."""

    interactions: Interactions
    preferences: sparse.csr_array  # [n_users, n_items] bool: does the user truly like the item?
    is_false: Bools  # [pairs] observed, but no preference; aligned with `interactions`

    def accuracy(self, users: ArrayLike, items: ArrayLike, copies: ArrayLike | None = None) -> float:
        """The share of these pairs, each counted `copies` times, that are true preferences."""
        is_true = np.isin(self._keys(users, items), self._true_keys())
        counts = np.ones(len(is_true)) if copies is None else np.asarray(copies, dtype=np.float64)
        if counts.shape != is_true.shape:
            raise DataError(f"{counts.size:,} copies for {len(is_true):,} pairs: every pair needs a number")
        if not counts.sum() > 0:
            raise DataError("there are no pairs, so no share of them is true; expected at least one")
        return float(counts[is_true].sum() / counts.sum())

    def coverage(self, users: ArrayLike, items: ArrayLike, weights: ArrayLike | None = None) -> float:
        """The share of all true preferences that are among these pairs, however often each occurs.

        Of weighted pairs, each there once, one that counts less than 1 covers only so much of its preference.
        """
        true_keys, keys = self._true_keys(), self._keys(users, items)
        if weights is None:
            return float(np.isin(true_keys, keys).mean())
        covered = np.minimum(np.asarray(weights, dtype=np.float64), 1.0)
        return float(covered[np.isin(keys, true_keys)].sum() / len(true_keys))

    def _true_keys(self) -> Ints:
        return self._keys(*self.preferences.nonzero())

    def _keys(self, users: ArrayLike, items: ArrayLike) -> Ints:
        n_users, n_items = self.preferences.shape
        rows, columns = _as_numbers(users, n_users, "user"), _as_numbers(items, n_items, "item")
        if len(rows) != len(columns):
            raise DataError(f"{len(rows):,} users but {len(columns):,} items: every pair needs both")
        keys: Ints = rows * n_items + columns
        return keys


def plant(
    kind: Kind,
    *,
    n_users: int,
    n_items: int,
    rng: np.random.Generator,
    mean_preferences: float = 80.0,
    mean_interactions: float = 20.0,
    false_positive_share: float = 0.2,
    popularity_skew: float = 1.0,
) -> PlantedWorld:
    """A world of one kind.

    * `low-rank`: users and items have latent factors; a user likes items whose factors agree with theirs.
    * `clustered`: users and items fall into groups; a user mostly likes items of their own, with exceptions.
    * `unstructured`: a user likes any item as well as any other; there is nothing to learn but popularity.

    User u truly likes a set D_u, whose size is log-normal over users, at most half of the items. Items are
    seen with unequal frequency: the r-th most exposed item has exposure r^−popularity_skew, whatever its
    qualities. What u did is drawn by exposure, without replacement: true pairs from D_u, false ones from
    outside it. Users who like more do more. The share of false pairs is exact in the whole world, up to one
    pair; the two means are met except where a user has not enough items to like or to do.

    Popular preferences are mostly observed, so the preferences left to find are the less popular ones.
    Memory: a few n_users × n_items arrays of float64.
    """
    if kind not in _AFFINITIES:
        raise unknown_name("planted world", kind, _AFFINITIES)
    _check(n_users, n_items, mean_preferences, mean_interactions, false_positive_share, popularity_skew)

    activity = rng.lognormal(size=n_users)
    activity /= activity.mean()
    n_liked = np.clip(np.rint(activity * mean_preferences), 1, n_items // 2).astype(np.int64)
    likes = _draw(_AFFINITIES[kind](n_users, n_items, rng), n_liked, rng)

    log_exposure = -popularity_skew * np.log(1 + rng.permutation(n_items))
    n_true, n_false = _count_observed(activity * mean_interactions, n_liked, n_items, false_positive_share)
    seen = _draw(np.where(likes, log_exposure, -np.inf), n_true, rng)
    seen |= _draw(np.where(likes, -np.inf, log_exposure), n_false, rng)

    users, items = seen.nonzero()
    interactions = Interactions.from_numbers(
        users,
        items,
        np.arange(n_users),
        np.arange(n_items),
        facts=(f"generated: {kind} world, {n_false.sum():,} of {len(users):,} pairs are no true preference",),
    )
    return PlantedWorld(interactions, sparse.csr_array(likes), is_false=~likes[users, items])


def _draw(log_weights: Floats, counts: Ints, rng: np.random.Generator) -> Bools:
    """For each row, `counts` columns without replacement, in turn with probability ∝ exp(log_weights).

    The Gumbel form of the exponential race: the largest of log-weight + Gumbel noise are such a draw
    (Yellott 1977; Efraimidis and Spirakis 2006). A column of log-weight −∞ is never drawn.
    """
    keys = rng.gumbel(size=log_weights.shape)
    keys += log_weights
    # Sorted, not cut at a threshold: an equal key beside the threshold must not add a column.
    ranked = np.argsort(-keys, axis=1)
    drawn = np.zeros(log_weights.shape, dtype=bool)
    np.put_along_axis(drawn, ranked, np.arange(log_weights.shape[1]) < counts[:, None], axis=1)
    return drawn


def _count_observed(wanted: Floats, n_liked: Ints, n_items: int, false_share: float) -> tuple[Ints, Ints]:
    """True and false pairs of each user: no more than can be drawn, with the false share exact overall."""
    # 1e-9: with no false pairs, the items outside set no limit.
    most = np.minimum(n_liked / (1 - false_share), (n_items - n_liked) / max(false_share, 1e-9))
    n_seen = np.clip(np.rint(wanted), 1, np.floor(most)).astype(np.int64)
    # Remainders are carried from user to user, so that roundings do not add up.
    running = np.floor(np.cumsum(n_seen) * false_share + 0.5).astype(np.int64)
    n_false = np.diff(running, prepend=0)
    # Already so, but for the last bit of a product: one pair too many could not be drawn.
    n_false = np.clip(n_false, n_seen - n_liked, n_items - n_liked)
    return n_seen - n_false, n_false


def _low_rank_affinity(n_users: int, n_items: int, rng: np.random.Generator) -> Floats:
    # Rank 8, and scores of standard deviation 3, so that the best of hundreds of items stand out clearly.
    rank, spread = 8, 3.0
    users, items = rng.standard_normal((n_users, rank)), rng.standard_normal((n_items, rank))
    affinity: Floats = users @ (items.T * (spread / rank**0.5))
    return affinity


def _clustered_affinity(n_users: int, n_items: int, rng: np.random.Generator) -> Floats:
    n_groups, exceptions = 10, 0.1
    user_group, item_group = rng.integers(n_groups, size=n_users), rng.integers(n_groups, size=n_items)
    inside = user_group[:, None] == item_group
    # The odds of one item inside against one outside, where there are n_groups − 1 times as many, for exceptions
    # at this rate while the group is not used up.
    odds = (1 - exceptions) / exceptions * (n_groups - 1)
    return np.where(inside, np.log(odds), 0.0)


def _no_affinity(n_users: int, n_items: int, rng: np.random.Generator) -> Floats:
    return np.zeros((n_users, n_items))


_AFFINITIES: dict[str, Callable[[int, int, np.random.Generator], Floats]] = {
    "low-rank": _low_rank_affinity,
    "clustered": _clustered_affinity,
    "unstructured": _no_affinity,
}


def _check(
    n_users: int,
    n_items: int,
    mean_preferences: float,
    mean_interactions: float,
    false_positive_share: float,
    popularity_skew: float,
) -> None:
    for name, value, least in (("n_users", n_users, 1), ("n_items", n_items, 2)):
        if value < least:
            raise SettingsError(f"{name} must be at least {least}, got {value}")
    for name, mean in (("mean_preferences", mean_preferences), ("mean_interactions", mean_interactions)):
        if not 0 < mean <= n_items:
            raise SettingsError(f"{name} must be above 0 and at most n_items = {n_items}, got {mean:g}")
    if not 0 <= false_positive_share < 1:
        raise SettingsError(f"false_positive_share must be at least 0 and below 1, got {false_positive_share:g}")
    if not 0 <= popularity_skew < np.inf:
        raise SettingsError(f"popularity_skew must be a finite number, at least 0, got {popularity_skew:g}")


def _as_numbers(ids: ArrayLike, n: int, what: str) -> Ints:
    numbers = np.asarray(ids)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= n):
        raise DataError(f"{what} ids of this world are the whole numbers 0 to {n - 1}; got others")
    return numbers.astype(np.int64)
