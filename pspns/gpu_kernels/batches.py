"""The pairs that a batch visits, looked up on the GPU by one kernel: a dozen small ones begin longer than they run."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS_AT_ONCE = 64


def look_up(
    visits: Tensor,
    first_visits: Tensor,
    pairs_before: Tensor,
    users: Tensor,
    items: Tensor,
    weights: Tensor,
    visits_up_to: Tensor | None,
) -> tuple[Tensor, ...]:
    """Of `[replicas, rows]` visits users, items, places of pairs, weights, and whether they are live.

    Visit −1 is a dead row, which is filled with its replica's first visit.

    `users`, `items` and `weights` are all worlds' pairs; `first_visits` and `pairs_before` `[replicas, 1]` tell where a
    replica's begin. Visit v belongs to the first pair whose running total `visits_up_to` exceeds v; unset: to pair v.
    """
    numbers = torch.empty(3, *visits.shape, dtype=torch.int64, device=visits.device)
    factors = torch.empty(2, *visits.shape, device=visits.device)
    n_replicas, n_rows = visits.shape
    _look_up[(triton.cdiv(n_rows, ROWS_AT_ONCE), n_replicas)](
        visits, first_visits, pairs_before, users, items, weights, visits_up_to, len(users), *numbers, *factors, n_rows,
        HAS_COPIES=visits_up_to is not None, ROWS=ROWS_AT_ONCE, num_warps=2,
    )  # fmt: skip
    return *numbers, *factors


@triton.jit  # type: ignore[untyped-decorator]
def _look_up(  # type: ignore[no-untyped-def]
    visits, first_visits, pairs_before, users, items, weights, visits_up_to, n_pairs,
    of_users, of_items, pair_ids, of_weights, live, n_rows, HAS_COPIES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    replica = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < n_rows
    places = replica * n_rows + rows
    visit = tl.load(visits + places, mask=is_row, other=-1)
    is_live = visit >= 0
    visit = tl.where(is_live, visit, tl.load(first_visits + replica))
    pair = visit
    if HAS_COPIES:
        pair, high = tl.zeros((ROWS,), tl.int64), tl.zeros((ROWS,), tl.int64) + n_pairs
        while tl.max(high - pair, 0) > 0:
            middle = (pair + high) // 2
            is_open = pair < high
            is_before = tl.load(visits_up_to + middle, mask=is_open, other=0) <= visit
            high = tl.where(is_open & (is_before == 0), middle, high)
            pair = tl.where(is_open & is_before, middle + 1, pair)
    tl.store(of_users + places, tl.load(users + pair), mask=is_row)
    tl.store(of_items + places, tl.load(items + pair), mask=is_row)
    tl.store(of_weights + places, tl.load(weights + pair), mask=is_row)
    tl.store(pair_ids + places, pair - tl.load(pairs_before + replica), mask=is_row)
    tl.store(live + places, is_live.to(tl.float32), mask=is_row)
