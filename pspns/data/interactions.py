"""Interactions: who did something with what, each pair once, as plain arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pspns.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Ids = NDArray[np.generic]  # int64, uint64, or text as objects


@dataclass(frozen=True)
class Interactions:
    """Distinct user–item pairs, sorted by user, then item."""

    users: Ints  # [pairs] places in user_ids
    items: Ints  # [pairs] places in item_ids
    user_ids: Ids  # [users] as the data wrote them, in the order of `order_ids`
    item_ids: Ids  # [items]
    times: Floats | None = None  # [pairs] when the pair first occurred, any unit
    facts: tuple[str, ...] = ()  # what reading found, merged or left out, in words
    usual_split: Any = None  # how its publishers split it; taken where no other split is asked for

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        *,
        ratings: ArrayLike | None = None,
        times: ArrayLike | None = None,
        min_rating: float | None = None,
    ) -> Interactions:
        """Rows of ids in any order; repeated pairs are merged and counted.

        >>> pairs = Interactions.from_arrays(["b", "a", "b"], [10, 9, 10])
        >>> pairs.user_ids.tolist(), pairs.item_ids.tolist(), pairs.users.tolist(), pairs.facts
        (['a', 'b'], [9, 10], [0, 1], ('1 repeated row merged',))
        """
        user_ids, user_numbers = number_ids(users, "user")
        item_ids, item_numbers = number_ids(items, "item")
        return cls.from_numbers(
            user_numbers,
            item_numbers,
            user_ids,
            item_ids,
            ratings=ratings,
            times=times,
            min_rating=min_rating,
        )

    @classmethod
    def from_numbers(
        cls,
        users: Ints,
        items: Ints,
        user_ids: Ids,
        item_ids: Ids,
        *,
        ratings: ArrayLike | None = None,
        times: ArrayLike | None = None,
        min_rating: float | None = None,
        facts: tuple[str, ...] = (),
    ) -> Interactions:
        """Rows already numbered by `user_ids` and `item_ids`, which are in the order of `order_ids`."""
        if len(users) != len(items):
            raise DataError(f"{len(users):,} users but {len(items):,} items: every row needs both")
        if len(users) == 0:
            raise DataError("there are no interactions; expected at least one row with a user and an item")
        row_times = None if times is None else _finite(times, len(users), "time")
        kept = np.ones(len(users), dtype=bool)
        if ratings is not None:
            row_ratings = _finite(ratings, len(users), "rating")
            kept, rating_fact = _apply_threshold(row_ratings, min_rating)
            facts = (*facts, rating_fact)
        elif min_rating is not None:
            raise DataError(f"min_rating is {min_rating:g}, but the data have no rating column")
        users, items = users[kept], items[kept]
        times_kept = None if row_times is None else row_times[kept]

        # Equal pairs become neighbours, the earliest first: a later repeat must not move a pair in time.
        keys = users * len(item_ids) + items
        order = np.argsort(keys, kind="stable") if times_kept is None else np.lexsort((times_kept, keys))
        first = np.concatenate(([True], np.diff(keys[order]) != 0))
        chosen = order[first]
        if repeats := len(order) - len(chosen):
            facts = (*facts, f"{repeats:,} repeated row{'s' if repeats > 1 else ''} merged")
        pairs = cls(
            users=users[chosen],
            items=items[chosen],
            user_ids=user_ids,
            item_ids=item_ids,
            times=None if times_kept is None else times_kept[chosen],
            facts=facts,
        )
        return pairs.without_unused_ids()

    @classmethod
    def from_matrix(cls, matrix: sparse.sparray | sparse.spmatrix) -> Interactions:
        """A users × items matrix; every stored non-zero value is an interaction, row and column numbers are ids."""
        rows, columns = matrix_pairs(matrix)
        return cls.from_arrays(rows, columns)

    def __len__(self) -> int:
        return len(self.users)

    def without_unused_ids(self) -> Interactions:
        users, user_ids = _renumbered(self.users, self.user_ids)
        items, item_ids = _renumbered(self.items, self.item_ids)
        return replace(self, users=users, items=items, user_ids=user_ids, item_ids=item_ids)


def _renumbered(places: Ints, ids: Ids) -> tuple[Ints, Ids]:
    used = np.zeros(len(ids), dtype=bool)
    used[places] = True
    return (np.cumsum(used) - 1)[places], ids[used]


def matrix_pairs(matrix: sparse.sparray | sparse.spmatrix) -> tuple[Ints, Ints]:
    """Row and column of every stored value that is not zero, each once."""
    if matrix.ndim != 2:
        raise DataError(f"the matrix has {matrix.ndim} dimension; expected users × items")
    entries = sparse.coo_array(matrix)
    entries.sum_duplicates()
    rows, columns = entries.coords
    if (odd := np.flatnonzero(~np.isfinite(entries.data))).size:
        value, row, column = entries.data[odd[0]], rows[odd[0]], columns[odd[0]]
        raise DataError(
            f"the matrix holds {value} in row {row}, column {column}; expected finite numbers, and none where "
            "there is no interaction"
        )
    stored = entries.data != 0
    return rows[stored].astype(np.int64), columns[stored].astype(np.int64)


def number_ids(values: ArrayLike, what: str) -> tuple[Ids, Ints]:
    """Distinct ids in order, and each row's place among them."""
    ids = as_ids(values, what)
    if ids.dtype != object:
        distinct, places = np.unique(ids, return_inverse=True)
        return distinct, places.astype(np.int64)
    ordered = order_ids(np.array(list(dict.fromkeys(ids.tolist())), dtype=object))
    place_of = {value: place for place, value in enumerate(ordered.tolist())}
    return ordered, np.fromiter((place_of[value] for value in ids.tolist()), np.int64, len(ids))


def as_ids(values: ArrayLike, what: str) -> Ids:
    """Ids as int64, uint64 or text, never changed: "007" stays text, a float or a missing id is an error.

    >>> as_ids(["1", "2"], "user").dtype, as_ids(["1", "02"], "user").tolist()
    (dtype('int64'), ['1', '02'])
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"{what} ids must be a flat list, got an array of shape {array.shape}")
    if array.dtype.kind in "iu":
        fits = array.dtype.kind == "i" or array.size == 0 or array.max() < 2**63
        return array.astype(np.int64 if fits else np.uint64)
    if array.dtype.kind not in "UOT":
        raise DataError(f"{what} ids must be whole numbers or text, got {array.dtype}")
    texts = np.array(values if isinstance(values, list | tuple) else array.tolist(), dtype=object)
    if all(type(value) is int for value in texts):
        return as_ids(np.array(texts.tolist()), what)
    for row, value in enumerate(texts):
        if not isinstance(value, str) or value == "":
            raise DataError(
                f"row {row + 1}: {what} id is {value!r}; ids must be all text or all whole numbers, none missing"
            )
    # Numbers written the plain way lose nothing as int64, and join with the user's own number columns.
    if all(is_plain_number(value) for value in texts):
        return texts.astype(np.int64)
    return texts


def is_plain_number(text: str) -> bool:
    """Is this text an int64 written the only usual way ("7", "-7"; not "007", "+7", "7.0")?"""
    return _PLAIN_NUMBER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def order_ids(ids: Ids) -> Ids:
    """Numbers first, as numbers, then other text by code point.

    The order of two ids never depends on a third, so ids that occur only in held-out data cannot reorder
    those of train.

    >>> order_ids(np.array(["b", "10", "9", "007"], dtype=object)).tolist()
    ['9', '10', '007', 'b']
    """
    if ids.dtype != object:
        return np.sort(ids)

    def key(value: str) -> tuple[bool, int, str]:
        return (False, int(value), "") if is_plain_number(value) else (True, 0, value)

    return np.array(sorted(ids.tolist(), key=key), dtype=object)


def _finite(values: ArrayLike, n_rows: int, what: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_rows,):
        raise DataError(f"{len(array):,} {what}s for {n_rows:,} rows: every row needs one")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"row {row + 1}: {what} is {array[row]}; expected a finite number")
    return array


def _apply_threshold(ratings: Floats, min_rating: float | None) -> tuple[NDArray[np.bool_], str]:
    kept = np.ones(len(ratings), dtype=bool) if min_rating is None else ratings >= min_rating
    if not kept.any():
        raise DataError(
            f"no row has a rating of at least {min_rating:g}: ratings run from {ratings.min():g} to "
            f"{ratings.max():g}; lower min_rating"
        )
    return kept, threshold_fact(ratings, np.ones(len(ratings), np.int64), min_rating)


def threshold_fact(ratings: Floats, counts: Ints, min_rating: float | None) -> str:
    """What became of the rows rated low; `counts` says how many rows have each rating."""
    if min_rating is not None:
        low = int(counts[ratings < min_rating].sum())
        return f"{low:,} of {counts.sum():,} rows left out: rating below {min_rating:g}"
    middle = ratings.min() / 2 + ratings.max() / 2  # the sum may be too large for a number
    low = int(counts[ratings < middle].sum())
    return (
        f"all {counts.sum():,} ratings count as interactions, {low:,} of them low (below {middle:g}); "
        f"set min_rating to leave those out"
    )
