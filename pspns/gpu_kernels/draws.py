"""Random items outside each user's set, on the GPU: `ReplicaStream`'s numbers and `ItemSets`' search in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

DRAWS_AT_ONCE = 64


def draw_outside(
    keys: Tensor, calls: Tensor, users: Tensor, starts: Tensor, outside_below: Tensor, n_items: int, n: int
) -> Tensor:
    """`[replicas, rows, n]` items, uniform over what is outside the sets of `users` `[replicas, rows]`.

    `keys` `[replicas]` and `calls` `[]` are the stream's; `calls` is left as it was. `outside_below` holds, for each
    entry of the sets, how many items below it are outside; it rises within a set.
    """
    n_replicas, n_rows = users.shape
    items = torch.empty(n_replicas, n_rows, n, dtype=torch.int64, device=users.device)
    _draw[(triton.cdiv(n_rows * n, DRAWS_AT_ONCE), n_replicas)](
        keys, calls, users.contiguous(), starts, outside_below, items, n_items, n_rows, n, DRAWS=DRAWS_AT_ONCE,
        num_warps=2,
    )  # fmt: skip
    return items


# SplitMix64, as in pspns/rng.py.
_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_MULTIPLY_1 = tl.constexpr(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = tl.constexpr(0x94D049BB133111EB)


@triton.jit  # type: ignore[untyped-decorator]
def _draw(  # type: ignore[no-untyped-def]
    keys, calls, users, starts, outside_below, items, n_items, n_rows, n, DRAWS: tl.constexpr
):
    replica = tl.program_id(1)
    draws = tl.program_id(0) * DRAWS + tl.arange(0, DRAWS)
    is_draw = draws < n_rows * n
    call = tl.load(calls).to(tl.uint64, bitcast=True)
    call_key = _mix(tl.load(keys + replica).to(tl.uint64, bitcast=True) + call * _GOLDEN)
    bits = _mix(call_key + (draws + 1).to(tl.uint64) * _GOLDEN)

    user = tl.load(users + replica * n_rows + draws // n, mask=is_draw, other=0)
    begin, end = tl.load(starts + user), tl.load(starts + user + 1)
    free = (n_items - (end - begin)).to(tl.uint64)
    rank = (((bits >> 32) * free) >> 32).to(tl.int64)
    # How many of the set lie below the rank-th item outside: those with at most `rank` outside below them.
    low, high = begin, end
    while tl.max(high - low, 0) > 0:
        middle = (low + high) // 2
        is_open = low < high
        is_below = tl.load(outside_below + middle, mask=is_open, other=0) <= rank
        high = tl.where(is_open & (is_below == 0), middle, high)
        low = tl.where(is_open & is_below, middle + 1, low)
    tl.store(items + replica * n_rows * n + draws, rank + low - begin, mask=is_draw)


@triton.jit
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> 30)) * _MULTIPLY_1
    x = (x ^ (x >> 27)) * _MULTIPLY_2
    return x ^ (x >> 31)
