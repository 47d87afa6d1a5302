"""Scores of positive and negative pairs, their squared lengths, and the gradients of both.

Tables are `[nodes, replicas, size]`, numbers of users and items `[replicas, rows]`.
"""

from __future__ import annotations

from numpy import float32

from pspns.kernels._compiled import compiled, prange

ROWS_A_TURN = 64
COLUMNS_A_TURN = 32


@compiled(lambda users, items, of_users, *_: of_users.size * users.shape[2])
def score_pairs(users, items, of_users, positives, negatives, positive_scores, negative_scores, squares):  # type: ignore[no-untyped-def]
    """u · i, u · j and ‖u‖² + ‖i‖² + ‖j‖² of every row."""
    n_replicas, n_rows = of_users.shape
    n_blocks = -(-n_rows // ROWS_A_TURN)
    for turn in prange(n_replicas * n_blocks):
        replica, first = turn // n_blocks, turn % n_blocks * ROWS_A_TURN
        for row in range(first, min(n_rows, first + ROWS_A_TURN)):
            u = users[of_users[replica, row], replica]
            i, j = items[positives[replica, row], replica], items[negatives[replica, row], replica]
            positive, negative, square = float32(0), float32(0), float32(0)
            for k in range(len(u)):
                positive += u[k] * i[k]
                negative += u[k] * j[k]
                square += u[k] * u[k] + i[k] * i[k] + j[k] * j[k]
            positive_scores[replica, row], negative_scores[replica, row] = positive, negative
            squares[replica, row] = square


@compiled(lambda users, items, of_users, *_: 3 * of_users.size * users.shape[2])
def add_gradients(  # type: ignore[no-untyped-def]
    users, items, of_users, positives, negatives, by_positive, by_negative, by_square, user_gradient, item_gradient
):
    """Add to the tables' gradients what those of `score_pairs`' results, `[replicas, rows]` each, make of them."""
    n_replicas, n_rows = of_users.shape
    size = users.shape[2]
    n_blocks = -(-size // COLUMNS_A_TURN)
    # A turn has some columns of all rows: no two turns add to the same number, and each is summed in one order.
    for turn in prange(n_replicas * n_blocks):
        replica, first = turn // n_blocks, turn % n_blocks * COLUMNS_A_TURN
        last = min(size, first + COLUMNS_A_TURN)
        for row in range(n_rows):
            user, positive, negative = of_users[replica, row], positives[replica, row], negatives[replica, row]
            up, down, twice = by_positive[replica, row], by_negative[replica, row], float32(2) * by_square[replica, row]
            u = users[user, replica, first:last]
            i, j = items[positive, replica, first:last], items[negative, replica, first:last]
            to_u = user_gradient[user, replica, first:last]
            to_i, to_j = item_gradient[positive, replica, first:last], item_gradient[negative, replica, first:last]
            # Three loops: the two items may be the same.
            for k in range(last - first):
                to_u[k] += up * i[k] + down * j[k] + twice * u[k]
            for k in range(last - first):
                to_i[k] += up * u[k] + twice * i[k]
            for k in range(last - first):
                to_j[k] += down * u[k] + twice * j[k]
