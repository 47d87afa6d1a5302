"""The numbers of `ReplicaStream`, alone and with the search of `ItemSets` for items outside each user's set."""

from __future__ import annotations

import numpy as np

from pspns.kernels._compiled import compiled, on_one_thread, prange

# SplitMix64, as in pspns/rng.py.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
DRAWS_A_TURN = 64
BITS_A_TURN = 4096


@on_one_thread
def mixed(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> np.uint64(30))) * MULTIPLY_1
    x = (x ^ (x >> np.uint64(27))) * MULTIPLY_2
    return x ^ (x >> np.uint64(31))


@compiled(lambda keys, calls, bits: 8 * bits.size)
def fill_with_bits(keys, calls, bits):  # type: ignore[no-untyped-def]
    """Fill `bits` `[replicas, n]` with what `ReplicaStream.bits` gives."""
    n_replicas, n = bits.shape
    n_blocks = -(-n // BITS_A_TURN)
    for turn in prange(n_replicas * n_blocks):
        replica, first = turn // n_blocks, turn % n_blocks * BITS_A_TURN
        call_key = mixed(np.uint64(keys[replica]) + np.uint64(calls) * GOLDEN)
        for place in range(first, min(n, first + BITS_A_TURN)):
            bits[replica, place] = np.int64(mixed(call_key + np.uint64(place + 1) * GOLDEN))


@compiled(lambda keys, calls, users, starts, outside_below, n_items, items: 32 * items.size)
def draw_outside(keys, calls, users, starts, outside_below, n_items, items):  # type: ignore[no-untyped-def]
    """Fill `items` `[replicas, rows, n]`, uniform over what is outside the sets of `users` `[replicas, rows]`.

    `keys` `[replicas]` are the stream's, `calls` how often it was asked before. `outside_below` holds, for each entry
    of the sets, how many items below it are outside; it rises within a set.
    """
    n_replicas, n_rows, n = items.shape
    n_draws = n_rows * n
    n_blocks = -(-n_draws // DRAWS_A_TURN)
    for turn in prange(n_replicas * n_blocks):
        replica, first = turn // n_blocks, turn % n_blocks * DRAWS_A_TURN
        call_key = mixed(np.uint64(keys[replica]) + np.uint64(calls) * GOLDEN)
        n_here = min(DRAWS_A_TURN, n_draws - first)
        ranks, begins = np.empty(n_here, np.int64), np.empty(n_here, np.int64)
        places, n_left = np.empty(n_here, np.int64), np.empty(n_here, np.int64)
        longest = 0
        for draw in range(n_here):
            user = users[replica, (first + draw) // n]
            begin, end = starts[user], starts[user + 1]
            bits = mixed(call_key + np.uint64(first + draw + 1) * GOLDEN)
            ranks[draw] = np.int64(((bits >> np.uint64(32)) * np.uint64(n_items - (end - begin))) >> np.uint64(32))
            begins[draw], places[draw], n_left[draw] = begin, begin, end - begin
            longest = max(longest, end - begin)
        # How many of the set lie below the rank-th item outside: those with at most `rank` outside below them. One
        # halving for all draws, then the next: a search alone would wait for memory at every halving.
        while longest > 0:
            for draw in range(n_here):
                half = (n_left[draw] + 1) >> 1
                place = places[draw] + half
                places[draw] = place if half > 0 and outside_below[place - 1] <= ranks[draw] else places[draw]
                n_left[draw] -= half
            longest >>= 1
        for draw in range(n_here):
            items[replica, (first + draw) // n, (first + draw) % n] = ranks[draw] + places[draw] - begins[draw]
