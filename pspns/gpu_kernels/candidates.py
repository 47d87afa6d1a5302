"""Scores of a few items for each row of a batch, on the GPU: their vectors are read once and never written down."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CANDIDATES_AT_ONCE = 32


def score_candidates(user_table: Tensor, item_table: Tensor, users: Tensor, items: Tensor) -> Tensor:
    """`[replicas, rows]` users by `[replicas, rows, n]` items, from `[nodes, replicas, size]` tables."""
    n_replicas, n_rows, n = items.shape
    size = user_table.shape[-1]
    scores = torch.empty(items.shape, dtype=torch.float32, device=items.device)
    at_once = min(CANDIDATES_AT_ONCE, int(triton.next_power_of_2(n)))
    _score[(n_rows, triton.cdiv(n, at_once), n_replicas)](
        user_table.contiguous(), item_table.contiguous(), users.contiguous(), items.contiguous(), scores,
        n_rows, n, n_replicas, size, CANDIDATES=at_once, COLUMNS=min(64, int(triton.next_power_of_2(size))),
        num_warps=2,
    )  # fmt: skip
    return scores


@triton.jit  # type: ignore[untyped-decorator]
def _score(  # type: ignore[no-untyped-def]
    user_table, item_table, users, items, scores, n_rows, n, n_replicas, size,
    CANDIDATES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Some candidates of one row."""
    row, replica = tl.program_id(0), tl.program_id(2)
    candidates = tl.program_id(1) * CANDIDATES + tl.arange(0, CANDIDATES)
    is_candidate = candidates < n
    place = replica.to(tl.int64) * n_rows + row
    u = (tl.load(users + place) * n_replicas + replica) * size
    i = (tl.load(items + place * n + candidates, mask=is_candidate, other=0) * n_replicas + replica) * size
    total = tl.zeros((CANDIDATES, COLUMNS), tl.float32)
    for first in range(0, size, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        is_column = columns < size
        of_u = tl.load(user_table + u + columns, mask=is_column, other=0.0)
        is_number = is_candidate[:, None] & is_column[None, :]
        total += of_u[None, :] * tl.load(item_table + i[:, None] + columns[None, :], mask=is_number, other=0.0)
    tl.store(scores + place * n + candidates, tl.sum(total, 1), mask=is_candidate)
