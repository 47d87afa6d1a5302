"""Message passing on the GPU over a graph that is small and dense: products with its matrix, on the tensor cores.

Degrees scale whole rows, so the matrix holds ones and zeros, or small weights: exact in 16 bits. What it multiplies is
split into a float16 and what that leaves, another float16: together 22 of float32's 24 bits, while sums are float32's.
Scaled by 1/√degree, a node's next layer is the mean of its neighbours' present one. So no layer has larger numbers than
the first, and one power of two for each column keeps all of them within float16's narrow range.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales

# Rows and columns are filled up with zeros to whole blocks, so that the products need no masks.
ROWS_AT_ONCE = 128
COLUMNS_AT_ONCE = 64
SHARED_BYTES = 200_000  # of the largest program; an H100 or H200 has 232,448


class DenseLayers:
    """The operator of `_propagation`; with one piece instead of two, what is multiplied is rounded to 11 bits."""

    def __init__(
        self,
        weights: sparse.csr_array,
        layers: int,
        device: torch.device,
        pieces: int = 2,
        *,
        with_first: bool = True,
    ):
        """Without the first layer, the mean begins at layer 1."""
        self._layers, self._pieces, self._with_first = layers, pieces, with_first
        self._n_users, self._n_items = weights.shape
        self._first_item = _filled_up(self._n_users, ROWS_AT_ONCE)  # items' rows follow users'
        self._n_rows = self._first_item + _filled_up(self._n_items, ROWS_AT_ONCE)
        to_users = torch.zeros(self._first_item, self._n_rows - self._first_item, dtype=torch.float16, device=device)
        edges = weights.tocoo()
        users, items = (torch.from_numpy(numbers.astype(np.int64)).to(device) for numbers in edges.coords)
        to_users[users, items] = torch.from_numpy(edges.data).to(device, torch.float16)
        # Both ways round, one after the other: rows of the left matrix are read in one piece.
        self._matrices = torch.cat((to_users.flatten(), to_users.T.flatten()))
        self._scale = torch.zeros(self._n_rows, device=device)
        for scale, first in zip(degree_scales(weights), (0, self._first_item), strict=True):
            self._scale[first : first + len(scale)] = torch.from_numpy(scale)

    @staticmethod
    def runs_on(device: torch.device) -> bool:
        """Has each multiprocessor room for what a program has on the way?"""
        properties = torch.cuda.get_device_properties(device)
        return bool(properties.shared_memory_per_block_optin >= SHARED_BYTES)  # type: ignore[attr-defined]

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        if self._layers == 0:
            return users.clone(), items.clone()
        n_columns = users.shape[1]
        width = _filled_up(n_columns, COLUMNS_AT_ONCE)
        # Layer l of every node, scaled as its neighbours read it, in pieces.
        tables = torch.empty(self._layers, self._pieces, self._n_rows, width, dtype=torch.float16, device=users.device)
        means = torch.empty_like(users), torch.empty_like(items)
        sizes = self._n_users, self._n_items, self._first_item, self._n_rows, n_columns, width
        largest = torch.zeros(width, dtype=torch.int32, device=users.device)  # the bits of each column's maximum
        blocks = self._n_rows // ROWS_AT_ONCE, width // COLUMNS_AT_ONCE
        shape = {"PIECES": self._pieces, "ROWS": ROWS_AT_ONCE, "COLUMNS": COLUMNS_AT_ONCE}
        _find_largest[blocks](users, items, self._scale, largest, *sizes, **shape, num_warps=8)
        _split[blocks](users, items, self._scale, largest, tables, *sizes, **shape, num_warps=8)
        rows, columns, stages, warps = self._block(width)
        for layer in range(1, self._layers + 1):
            _pass_on[(self._n_rows // rows * (width // columns),)](
                self._matrices, self._scale, largest, tables, layer, users, items, *means, *sizes,
                N_LAYERS=self._layers, IS_LAST=layer == self._layers, N_FIRST=int(self._with_first),
                PIECES=self._pieces, ROWS=rows, COLUMNS=columns, INNER=64, STAGES=stages, num_warps=warps,
            )  # fmt: skip
        return means

    def _block(self, width: int) -> tuple[int, int, int, int]:
        """Rows, columns, stages and warps of a program: the fastest of those tried on an H200. All sum alike."""
        if width == COLUMNS_AT_ONCE:
            return 64, 64, 6, 4
        if self._pieces == 1:
            return (128, 128, 5, 4) if width % 128 == 0 else (128, 64, 5, 4)
        return (128, 128, 4, 8) if width % 128 == 0 and width >= 512 else (128, 64, 5, 4)


def _filled_up(n: int, whole: int) -> int:
    return -(-n // whole) * whole


@triton.jit  # type: ignore[untyped-decorator]
def _find_largest(  # type: ignore[no-untyped-def]
    users, items, scale, largest, n_users, n_items, first_item, n_rows, n_columns, width,
    PIECES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The largest number of each column, by its bits, which order as the numbers do."""
    row, columns = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    values = _scaled_rows(users, items, scale, row, columns, n_users, n_items, first_item, n_columns, ROWS)
    tl.atomic_max(largest + columns, tl.max(tl.abs(values), 0).to(tl.int32, bitcast=True))


@triton.jit  # type: ignore[untyped-decorator]
def _split(  # type: ignore[no-untyped-def]
    users, items, scale, largest, tables, n_users, n_items, first_item, n_rows, n_columns, width,
    PIECES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Layer 0, as neighbours read it."""
    row, columns = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    values = _scaled_rows(users, items, scale, row, columns, n_users, n_items, first_item, n_columns, ROWS)
    values *= _two_to(_exponents(largest + columns))[None, :]
    _store_pieces(values, tables, row + tl.arange(0, ROWS), columns, n_rows, width, PIECES)


@triton.jit  # type: ignore[untyped-decorator]
def _pass_on(  # type: ignore[no-untyped-def]
    matrices, scale, largest, tables, layer, users, items, user_means, item_means,
    n_users, n_items, first_item, n_rows, n_columns, width,
    N_LAYERS: tl.constexpr, IS_LAST: tl.constexpr, N_FIRST: tl.constexpr, PIECES: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One block of the next layer; of the last one, of the mean over layers."""
    # Items come first: they mostly have the longer sums, and what is begun last should not last longest.
    n_blocks, n_inner_items = width // COLUMNS, n_rows - first_item
    row_block, column = tl.program_id(0) // n_blocks, tl.program_id(0) % n_blocks * COLUMNS
    to_items = row_block < n_inner_items // ROWS
    row = tl.where(to_items, row_block, row_block - n_inner_items // ROWS) * ROWS
    n_inner = tl.multiple_of(tl.where(to_items, first_item, n_inner_items), INNER)
    matrix = matrices + tl.where(to_items, first_item.to(tl.int64) * n_inner_items, 0) + row.to(tl.int64) * n_inner
    table_size = n_rows.to(tl.int64) * width
    table = tables + (layer - 1) * PIECES * table_size + tl.where(to_items, 0, first_item).to(tl.int64) * width

    rows, inner, columns = tl.arange(0, ROWS), tl.arange(0, INNER), tl.arange(0, COLUMNS * PIECES)
    left = matrix + rows[:, None] * n_inner + inner[None, :]
    # Pieces side by side, each with a sum of its own: the small one's would drown in the large one's.
    right = table + inner[:, None] * width + (column + columns % COLUMNS + columns // COLUMNS * table_size)[None, :]
    total = tl.zeros((ROWS, COLUMNS * PIECES), tl.float32)
    for _ in tl.range(0, n_inner, INNER, num_stages=STAGES):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += INNER
        right += INNER * width
    values = tl.sum(tl.reshape(total, (ROWS, PIECES, COLUMNS)), 1)

    node = row + tl.where(to_items, first_item, 0)
    columns = column + tl.arange(0, COLUMNS)
    row_scale = tl.load(scale + node + rows)[:, None]
    if IS_LAST:
        between = tl.zeros((ROWS, COLUMNS), tl.float32)
        for number in tl.static_range(PIECES, PIECES * N_LAYERS):
            places = (node + rows)[:, None] * width + columns[None, :]
            between += tl.load(tables + number * table_size + places).to(tl.float32)
        # A node without edges has scale 0, and nothing in between.
        between = tl.where(row_scale > 0, between / row_scale, 0.0)
        later = (between + values * row_scale) * _two_to(-_exponents(largest + columns))[None, :]
        places = (row + rows).to(tl.int64)[:, None] * n_columns + columns[None, :]
        is_column = (columns < n_columns)[None, :]
        if to_items:
            is_place = (row + rows < n_items)[:, None] & is_column
            first = tl.load(items + places, mask=is_place) * N_FIRST
            tl.store(item_means + places, (first + later) / (N_LAYERS + N_FIRST), mask=is_place)
        else:
            is_place = (row + rows < n_users)[:, None] & is_column
            first = tl.load(users + places, mask=is_place) * N_FIRST
            tl.store(user_means + places, (first + later) / (N_LAYERS + N_FIRST), mask=is_place)
    else:
        into = tables + layer * PIECES * table_size
        _store_pieces(values * row_scale * row_scale, into, node + rows, columns, n_rows, width, PIECES)


@triton.jit  # type: ignore[untyped-decorator]
def _scaled_rows(  # type: ignore[no-untyped-def]
    users, items, scale, row, columns, n_users, n_items, first_item, n_columns, ROWS: tl.constexpr
):
    """Rows of the users' or the items' table, times their scale; zeros where there are none."""
    rows = row + tl.arange(0, ROWS)
    is_column = (columns < n_columns)[None, :]
    if row < first_item:
        places = rows.to(tl.int64)[:, None] * n_columns + columns[None, :]
        values = tl.load(users + places, mask=(rows < n_users)[:, None] & is_column, other=0.0)
    else:
        places = (rows - first_item).to(tl.int64)[:, None] * n_columns + columns[None, :]
        values = tl.load(items + places, mask=(rows - first_item < n_items)[:, None] & is_column, other=0.0)
    return values * tl.load(scale + rows)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _store_pieces(values, into, rows, columns, n_rows, width, PIECES: tl.constexpr):  # type: ignore[no-untyped-def]
    """A float16, and what it leaves as another."""
    places = rows[:, None] * width + columns[None, :]
    large = values.to(tl.float16)
    tl.store(into + places, large)
    if PIECES == 2:
        tl.store(into + n_rows.to(tl.int64) * width + places, (values - large.to(tl.float32)).to(tl.float16))


@triton.jit
def _exponents(largest):  # type: ignore[no-untyped-def]
    """Of the power of two that brings a column's maximum to between 2¹⁴ and 2¹⁵; float16 ends at 2¹⁶."""
    exponents = 14 + 127 - (tl.load(largest) >> 23)
    return tl.minimum(exponents, 126)  # one more, and its inverse would be no normal float; so too for a maximum of 0


@triton.jit
def _two_to(exponents):  # type: ignore[no-untyped-def]
    return ((exponents + 127) << 23).to(tl.float32, bitcast=True)
