"""Rows of pairs as they come, each pair kept once, with the earliest of its times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pspns.data.id_numbers import Codes
from pspns.data.interactions import Floats, Ints

# Users are dealt out to shards, rows by the batch: arrays that fit into the processor's caches are sorted three times
# as fast, and memory that is used again need not be asked for.
_N_SHARDS = 64
_DEALT_AT_ONCE = 1 << 18  # rows


class DistinctPairs:
    """The distinct pairs of all rows so far; at most twice as many rows wait to be merged with them."""

    def __init__(self) -> None:
        self._waiting = _Rows()
        self._n_waiting = 0
        self._shards = [_Shard() for _ in range(_N_SHARDS)]

    def add(self, users: Codes, items: Codes, times: Floats | None) -> None:
        """Rows, of which either all or none have a time."""
        self._waiting.add(users, items, times)
        self._n_waiting += len(users)
        if self._n_waiting >= _DEALT_AT_ONCE:
            self._deal()

    def in_places(self, user_places: Ints, item_places: Ints) -> tuple[Ints, Ints, Floats | None]:
        """Users, items and times of all pairs, sorted by user, then item, which are now called by their places.

        The pairs are handed over: none is left here.
        """
        self._deal()
        places = user_places.astype(np.uint32), item_places.astype(np.uint32)
        n_pairs = np.zeros(len(user_places), np.int64)  # of each user
        # Threads cannot meet: a user is in one shard alone.
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda shard: shard.rename(*places, n_pairs), self._shards))
            ends = np.cumsum(n_pairs)
            items = np.empty(n_pairs.sum(), np.int64)
            times = np.empty(len(items)) if any(shard.rows.times for shard in self._shards) else None
            list(threads.map(lambda shard: shard.move(ends, items, times), self._shards))
        return np.repeat(np.arange(len(n_pairs)), n_pairs), items, times

    def _deal(self) -> None:
        users, items, times = self._waiting.take()
        self._n_waiting = 0
        shard_of_row = (users % _N_SHARDS).astype(np.uint8)
        order = np.argsort(shard_of_row, kind="stable")  # numpy counts where numbers are so small
        ends = np.cumsum(np.bincount(shard_of_row, minlength=_N_SHARDS))
        for shard, rows in zip(self._shards, np.split(order, ends[:-1]), strict=True):
            shard.add(users[rows], items[rows], None if times is None else times[rows])


@dataclass
class _Rows:
    """Columns in pieces."""

    users: list[Codes] = field(default_factory=list)
    items: list[Codes] = field(default_factory=list)
    times: list[Floats] = field(default_factory=list)  # none if rows have no time

    def add(self, users: Codes, items: Codes, times: Floats | None) -> None:
        self.users.append(users)
        self.items.append(items)
        if times is not None:
            self.times.append(times)

    def take(self) -> tuple[Codes, Codes, Floats | None]:
        """All of them in one piece, which leaves none."""
        times = _joined(self.times, np.float64) if self.times else None
        return _joined(self.users, np.uint32), _joined(self.items, np.uint32), times


@dataclass
class _Shard:
    """All pairs of some users."""

    rows: _Rows = field(default_factory=_Rows)  # the first piece is merged
    _n_merged: int = 0
    _n_waiting: int = 0

    def add(self, users: Codes, items: Codes, times: Floats | None) -> None:
        self.rows.add(users, items, times)
        self._n_waiting += len(users)
        # Not before twice as many wait as there are pairs: so each row costs the same, however many there are.
        if self._n_waiting > 2 * self._n_merged:
            users, items, times = distinct_pairs(*self.rows.take())
            self.rows.add(users, items, times)
            self._n_merged, self._n_waiting = len(users), 0

    def rename(self, user_places: Codes, item_places: Codes, n_pairs: Ints) -> None:
        """Call users and items by their places, and note in `n_pairs` how many each user has."""
        users, items, times = self.rows.take()
        users, items, times = distinct_pairs(user_places[users], item_places[items], times)
        self.rows.add(users, items, times)
        starts, lengths = _runs(users)
        n_pairs[users[starts]] = lengths

    def move(self, ends: Ints, items: Ints, times: Floats | None) -> None:
        """Write the pairs of each user where they end in the whole."""
        own_users, own_items, own_times = self.rows.take()
        starts, lengths = _runs(own_users)
        shifts = ends[own_users[starts]] - lengths - starts
        targets = np.arange(len(own_users)) + np.repeat(shifts, lengths)
        items[targets] = own_items
        if times is not None:
            times[targets] = own_times


def distinct_pairs(users: Codes, items: Codes, times: Floats | None = None) -> tuple[Codes, Codes, Floats | None]:
    """Every pair once, sorted by user, then item; of the rows' times the earliest of each pair.

    >>> pairs = np.array([1, 0, 1], np.uint32), np.array([5, 7, 5], np.uint32)
    >>> [column.tolist() for column in distinct_pairs(*pairs, np.array([3.0, 2.0, 1.0]))]
    [[0, 1], [7, 5], [2.0, 1.0]]
    """
    item_bits = _n_bits(items)
    keys = (users.astype(np.uint64) << item_bits) | items
    if times is None:
        keys.sort()
    else:
        keys, times = _sorted_together(keys, times)
    is_first = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    if times is not None:
        times = _earliest(times, is_first)
    keys = keys[is_first]
    users = (keys >> item_bits).astype(np.uint32)
    items = (keys & _lowest(item_bits)).astype(np.uint32)
    return users, items, times


def _sorted_together(keys: NDArray[np.uint64], times: Floats) -> tuple[NDArray[np.uint64], Floats]:
    """Both in the order of the keys."""
    row_bits = np.uint64(len(keys).bit_length())
    if _n_bits(keys) + row_bits > 64:
        order = np.argsort(keys)
        return keys[order], times[order]
    # numpy sorts numbers five times as fast as it finds their order, so each key carries its row below it.
    with_rows = (keys << row_bits) | np.arange(len(keys), dtype=np.uint64)
    with_rows.sort()
    return with_rows >> row_bits, times[with_rows & _lowest(row_bits)]


def _earliest(times: Floats, is_first: NDArray[np.bool_]) -> Floats:
    """The least of each run of equal pairs: a later repeat must not move a pair in time."""
    earliest = times[is_first]
    repeats = np.flatnonzero(~is_first)
    # All before the j-th repeat (from 0) are first ones but j.
    run_of_repeat = repeats - np.arange(len(repeats)) - 1
    np.minimum.at(earliest, run_of_repeat, times[repeats])
    return earliest


def _runs(ordered: Codes) -> tuple[Ints, Ints]:
    """Where each run of equal numbers starts, and its length."""
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + 1))
    return starts, np.diff(starts, append=len(ordered))


def _n_bits(numbers: NDArray[np.unsignedinteger[Any]]) -> np.uint64:
    return np.uint64(int(numbers.max(initial=0)).bit_length())


def _lowest(n_bits: np.uint64) -> np.uint64:
    """A mask of so many bits."""
    return (np.uint64(1) << n_bits) - np.uint64(1)


def _joined(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """One array of all, which leaves the list empty."""
    joined = np.concatenate(parts) if parts else np.empty(0, dtype)
    parts.clear()
    return joined
