"""Scores of a few items for each row of a batch."""

from __future__ import annotations

from numpy import float32

from pspns.kernels._compiled import compiled, prange

ROWS_A_TURN = 16


@compiled(lambda users, items, of_users, candidates, scores: candidates.size * users.shape[2])
def score_candidates(users, items, of_users, candidates, scores):  # type: ignore[no-untyped-def]
    """Fill `scores` `[replicas, rows, n]`; tables are `[nodes, replicas, size]`, `of_users` `[replicas, rows]`."""
    n_replicas, n_rows, n = candidates.shape
    size = users.shape[2]
    n_blocks = -(-n_rows // ROWS_A_TURN)
    for turn in prange(n_replicas * n_blocks):
        replica, first = turn // n_blocks, turn % n_blocks * ROWS_A_TURN
        for row in range(first, min(n_rows, first + ROWS_A_TURN)):
            u = users[of_users[replica, row], replica]
            for candidate in range(n):
                i = items[candidates[replica, row, candidate], replica]
                score = float32(0)
                for k in range(size):
                    score += u[k] * i[k]
                scores[replica, row, candidate] = score
