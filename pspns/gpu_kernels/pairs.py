"""The pairs of a batch on the GPU: their scores, and the gradients of the tables, by Triton kernels.

No number is ever added to by two programs at once, whose order would differ from run to run. Rows of the batch that
touch one node are sorted to lie together, and one program sums them in the order of the batch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pspns.shapes import Embeddings


class GpuPairs:
    """Users, positives and negatives, `[replicas, rows]` each, into tables that are `[nodes, replicas, size]`."""

    def __init__(self, users: Tensor, items: Tensor, negatives: Tensor):
        self._numbers = users.contiguous(), items.contiguous(), negatives.contiguous()
        self._n_rows = users.shape[1]
        # Nodes in order, and the place of each before: [replicas, rows], and [replicas, 2 · rows] for items.
        self._user_order = users.sort(stable=True)
        self._item_order = torch.cat((items, negatives), dim=1).sort(stable=True)

    def scores(self, tables: Embeddings, base: Embeddings) -> tuple[Tensor, Tensor, Tensor]:
        """u · i and u · j from `tables`, ‖u‖² + ‖i‖² + ‖j‖² from `base`; `[replicas, rows]` each."""
        n_replicas, size = tables.users.shape[1:]
        positive, negative, squares = (torch.empty_like(self._numbers[0], dtype=torch.float32) for _ in range(3))
        _score[(triton.cdiv(self._n_rows, 4), n_replicas)](
            *self._numbers, tables.users, tables.items, base.users, base.items, positive, negative, squares,
            self._n_rows, n_replicas, size, IS_BASE=tables is base, ROWS=4, COLUMNS=_columns(size), num_warps=1,
        )  # fmt: skip
        return positive, negative, squares

    def gradient(
        self, tables: Embeddings, by_positive: Tensor, by_negative: Tensor, by_square: Tensor
    ) -> tuple[Embeddings, Embeddings]:
        """What the scores' gradient makes of the tables', and the sum of the squares' for each node.

        That is `[nodes, replicas]`; twice that times a row of the base is the gradient of that row.
        """
        slopes = by_positive.contiguous(), by_negative.contiguous(), by_square.contiguous()
        of_tables = Embeddings(torch.zeros_like(tables.users), torch.zeros_like(tables.items))
        of_squares = Embeddings(*(tables.users.new_zeros(table.shape[:2]) for table in (tables.users, tables.items)))
        n_replicas, size = tables.users.shape[1:]
        columns = _columns(size)
        for is_users, order, *into in (
            (True, self._user_order, of_tables.users, of_squares.users),
            (False, self._item_order, of_tables.items, of_squares.items),
        ):
            n_places = order.values.shape[1]
            _sum_runs[(n_places, n_replicas, triton.cdiv(size, columns))](
                *order, *self._numbers, *slopes, tables.users, tables.items, *into,
                self._n_rows, n_places, n_replicas, size, IS_USERS=is_users, PLACES=8, COLUMNS=columns, num_warps=1,
            )  # fmt: skip
        return of_tables, of_squares


def _columns(size: int) -> int:
    return min(64, int(triton.next_power_of_2(size)))


@triton.jit  # type: ignore[untyped-decorator]
def _score(  # type: ignore[no-untyped-def]
    users, items, negatives, user_table, item_table, user_base, item_base, positive, negative, squares,
    n_rows, n_replicas, size, IS_BASE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A few rows of the batch of one replica."""
    replica = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < n_rows
    places = replica * n_rows + rows
    u = (tl.load(users + places, mask=is_row, other=0) * n_replicas + replica) * size
    i = (tl.load(items + places, mask=is_row, other=0) * n_replicas + replica) * size
    j = (tl.load(negatives + places, mask=is_row, other=0) * n_replicas + replica) * size
    up, down = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
    square = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, size, COLUMNS):
        columns = (first + tl.arange(0, COLUMNS))[None, :]
        is_number = is_row[:, None] & (columns < size)
        of_u = tl.load(user_table + u[:, None] + columns, mask=is_number, other=0.0)
        of_i = tl.load(item_table + i[:, None] + columns, mask=is_number, other=0.0)
        of_j = tl.load(item_table + j[:, None] + columns, mask=is_number, other=0.0)
        up += of_u * of_i
        down += of_u * of_j
        if not IS_BASE:
            of_u = tl.load(user_base + u[:, None] + columns, mask=is_number, other=0.0)
            of_i = tl.load(item_base + i[:, None] + columns, mask=is_number, other=0.0)
            of_j = tl.load(item_base + j[:, None] + columns, mask=is_number, other=0.0)
        square += of_u * of_u + of_i * of_i + of_j * of_j
    tl.store(positive + places, tl.sum(up, 1), mask=is_row)
    tl.store(negative + places, tl.sum(down, 1), mask=is_row)
    tl.store(squares + places, tl.sum(square, 1), mask=is_row)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_runs(  # type: ignore[no-untyped-def]
    nodes, order, users, items, negatives, by_positive, by_negative, by_square, user_table, item_table,
    of_table, of_squares, n_rows, n_places, n_replicas, size,
    IS_USERS: tl.constexpr, PLACES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of the node that stands at one place of the order, if it stands there for the first time."""
    place, replica = tl.program_id(0), tl.program_id(1)
    nodes += replica * n_places
    order += replica * n_places
    node = tl.load(nodes + place)
    if node != tl.load(nodes + place - 1, mask=place > 0, other=-1):
        columns = (tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
        total, square = tl.zeros((PLACES, COLUMNS), tl.float32), tl.zeros((PLACES,), tl.float32)
        goes_on = 1
        while goes_on > 0:
            places = place + tl.arange(0, PLACES)
            is_own = tl.load(nodes + places, mask=places < n_places, other=-1) == node
            number = tl.load(order + places, mask=is_own, other=0)
            is_positive = number < n_rows  # always so for users; an item's negatives follow its positives
            row = replica * n_rows + tl.where(is_positive, number, number - n_rows)
            square += tl.load(by_square + row, mask=is_own, other=0.0)
            is_number = is_own[:, None] & (columns < size)
            if IS_USERS:
                i = (tl.load(items + row, mask=is_own, other=0) * n_replicas + replica) * size
                j = (tl.load(negatives + row, mask=is_own, other=0) * n_replicas + replica) * size
                up = tl.load(by_positive + row, mask=is_own, other=0.0)[:, None]
                down = tl.load(by_negative + row, mask=is_own, other=0.0)[:, None]
                total += up * tl.load(item_table + i[:, None] + columns, mask=is_number, other=0.0)
                total += down * tl.load(item_table + j[:, None] + columns, mask=is_number, other=0.0)
            else:
                u = (tl.load(users + row, mask=is_own, other=0) * n_replicas + replica) * size
                up = tl.load(by_positive + row, mask=is_own & is_positive, other=0.0)
                down = tl.load(by_negative + row, mask=is_own & (number >= n_rows), other=0.0)
                of_u = tl.load(user_table + u[:, None] + columns, mask=is_number, other=0.0)
                total += (up + down)[:, None] * of_u
            place += PLACES
            goes_on = tl.min(is_own.to(tl.int32), 0)
        own = node * n_replicas + replica
        tl.store(of_table + own * size + columns, tl.sum(total, 0)[None, :], mask=columns < size)
        tl.store(of_squares + own, tl.sum(square, 0), mask=tl.program_id(2) == 0)
