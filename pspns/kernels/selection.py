"""The best items of each row of scores, found by counting: no row is ever sorted.

A float's bits, read as sign and magnitude, are a whole number that orders like the float: its key. Of groups of keys
the k-th highest maximum is a bound that at least k keys reach, and not many more. Among these few, bisection finds the
k-th highest, and walking through them by number gives ties to the lower item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pspns.kernels._compiled import compiled, on_one_thread, prange

Ints = NDArray[np.int64]
Keys = NDArray[np.int32]
Scores = NDArray[np.float32]

MAGNITUDE = np.int32(0x7FFF_FFFF)
INFINITE = np.int32(0x7F80_0000)  # the magnitude of ∞; above it are the many forms of NaN
NOT_A_NUMBER = np.int32(INFINITE + 1)  # above all numbers, as for torch.topk
LEFT_OUT = np.int32(-INFINITE)  # −∞: never chosen
LOWEST = np.int32(LEFT_OUT + 1)  # the lowest that may be chosen

ROWS_A_TURN = 8  # they use the same scratch one after the other
TOGETHER = 16  # keys that are compared at once before any is looked at alone: a vector


@compiled(lambda scores, *_: scores.size)
def best_first(scores: Scores, known_starts: Ints, known_items: Ints, users: Ints, items: Ints, values: Scores) -> None:
    """Fill `items` and `values` `[rows, k]` with the best of each row, best first; −1 and −∞ where nothing is left.

    Row r leaves out `known_items[known_starts[u] : known_starts[u + 1]]` for u = `users[r]`.
    """
    for turn in prange(_n_turns(scores)):
        _best_first(turn, scores, known_starts, known_items, users, items, values)


@compiled(lambda scores, *_: scores.size)
def best_by_number(scores: Scores, starts: Ints, items: Ints) -> None:
    """Fill `items[starts[r] : starts[r + 1]]` with that many of the best items of row r, rising; they must exist."""
    for turn in prange(_n_turns(scores)):
        _best_by_number(turn, scores, starts, items)


@on_one_thread
def _n_turns(scores: Scores) -> int:
    return (len(scores) + ROWS_A_TURN - 1) // ROWS_A_TURN


@on_one_thread
def _best_first(
    turn: int, scores: Scores, known_starts: Ints, known_items: Ints, users: Ints, items: Ints, values: Scores
) -> None:
    keys, chosen, chosen_keys = _scratch(scores.shape[1])
    for row in range(turn * ROWS_A_TURN, min((turn + 1) * ROWS_A_TURN, len(scores))):
        _set_keys(scores[row].view(np.int32), keys)
        for place in range(known_starts[users[row]], known_starts[users[row] + 1]):
            keys[known_items[place]] = LEFT_OUT
        n_found = _choose(keys, items.shape[1], chosen, chosen_keys)
        _rank(chosen[:n_found], chosen_keys[:n_found], scores[row], items[row], values[row])


@on_one_thread
def _best_by_number(turn: int, scores: Scores, starts: Ints, items: Ints) -> None:
    keys, chosen, chosen_keys = _scratch(scores.shape[1])
    for row in range(turn * ROWS_A_TURN, min((turn + 1) * ROWS_A_TURN, len(scores))):
        _set_keys(scores[row].view(np.int32), keys)
        n_found = _choose(keys, starts[row + 1] - starts[row], chosen, chosen_keys)
        for place in range(n_found):
            items[starts[row] + place] = chosen[place]


@on_one_thread
def _scratch(n_items: int) -> tuple[Keys, Keys, Keys]:
    """Room for the keys of a row, for the numbers of those chosen, and for their keys."""
    width = (n_items + TOGETHER - 1) // TOGETHER * TOGETHER
    keys = np.empty(width, dtype=np.int32)
    keys[n_items:] = LEFT_OUT
    return keys, np.empty(width, dtype=np.int32), np.empty(width, dtype=np.int32)


@on_one_thread
def _set_keys(bits: Keys, keys: Keys) -> None:
    """The keys of floats given as their bits; 0 and −0 have the same."""
    for column in range(len(bits)):
        magnitude = bits[column] & MAGNITUDE
        key = magnitude if bits[column] >= 0 else -magnitude
        keys[column] = NOT_A_NUMBER if magnitude > INFINITE else key


@on_one_thread
def _choose(keys: Keys, k: int, chosen: Keys, chosen_keys: Keys) -> int:
    """Write the numbers of the k highest keys, rising, and those keys; return how many there are."""
    bound = _bound_from_groups(keys, k, chosen)
    n_found = 0
    for first in range(len(keys) // TOGETHER):
        some_keys = keys[first * TOGETHER : (first + 1) * TOGETHER]
        highest = LEFT_OUT
        for place in range(TOGETHER):
            highest = max(highest, some_keys[place])
        if highest >= bound:
            for place in range(TOGETHER):
                # Without a branch, which would be guessed wrong: what is not to be kept is overwritten.
                chosen[n_found] = first * TOGETHER + place
                chosen_keys[n_found] = some_keys[place]
                n_found += some_keys[place] >= bound
    if n_found <= k:
        return n_found
    found_keys = chosen_keys[:n_found]
    bound = _kth_highest(found_keys, k, 0, bound)
    n_equal = k - int(_count(found_keys, np.int32(bound + 1)))
    n_kept = 0
    for place in range(n_found):
        key = found_keys[place]
        chosen[n_kept] = chosen[place]
        chosen_keys[n_kept] = key
        n_kept += key > bound or (key == bound and n_equal > 0)
        n_equal -= key == bound
    return n_kept


@on_one_thread
def _bound_from_groups(keys: Keys, k: int, maxima: Keys) -> np.int32:
    """A bound that at least k keys reach and not many more; the lowest where k is a large share."""
    # Four groups for each one wanted: few have two of the best. Or more, until they are as small as they are many.
    n_groups = (max(4 * k, int(np.sqrt(k * len(keys)))) // TOGETHER + 1) * TOGETHER
    if 2 * n_groups > len(keys):
        return LOWEST
    for group in range(n_groups):
        maxima[group] = keys[group]
    for first in range(n_groups, len(keys), n_groups):
        members = keys[first : first + n_groups]
        for group in range(len(members)):
            maxima[group] = max(maxima[group], members[group])
    return _kth_highest(maxima[:n_groups], k, k // 4, LOWEST)


@on_one_thread
def _kth_highest(keys: Keys, k: int, slack: int, lowest: np.int32) -> np.int32:
    """The highest bound that k keys reach, or one that at most `slack` more do; at least `lowest`."""
    reached, missed = np.int64(lowest), np.int64(NOT_A_NUMBER) + 1
    while missed - reached > 1:
        middle = (reached + missed) >> 1
        count = _count(keys, np.int32(middle))
        if count < k:
            missed = middle
        else:
            reached = middle
            if count <= k + slack:
                break
    return np.int32(reached)


@on_one_thread
def _count(keys: Keys, bound: np.int32) -> np.int32:
    """How many keys reach the bound."""
    count = np.int32(0)
    for place in range(len(keys)):
        count += np.int32(keys[place] >= bound)
    return count


@on_one_thread
def _rank(chosen: Keys, keys: Keys, scores: Scores, items: Ints, values: Scores) -> None:
    """Write the chosen, those with the highest keys first, ties to the lower number."""
    ranked = np.empty(len(chosen), dtype=np.int64)
    for place in range(len(chosen)):
        ranked[place] = (-np.int64(keys[place]) << 32) + chosen[place]
    ranked.sort()
    for rank in range(len(items)):
        item = ranked[rank] & 0xFFFF_FFFF if rank < len(ranked) else -1
        items[rank] = item
        values[rank] = scores[item] if item >= 0 else -np.inf
