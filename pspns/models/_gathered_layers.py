"""Message passing on the GPU: one Triton kernel for each layer and side, which gathers neighbours and sums in float32.

Per layer and replica the rows of all neighbours are read once, and that is nearly all there is: no edge values are
stored (degrees scale whole rows), and the mean over layers is taken in the pass that makes the last one.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales

SCALED_AT_ONCE = 256  # columns of a program that only scales


class GatheredLayers:
    """The operator of `_propagation`; rows are kept as `table_dtype` to be gathered; bfloat16 halves the reading."""

    def __init__(
        self,
        weights: sparse.csr_array,
        layers: int,
        device: torch.device,
        table_dtype: torch.dtype = torch.float32,
        *,
        with_first: bool = True,
    ):
        """Without the first layer, the mean begins at layer 1."""
        self._layers, self._n_first = layers, int(with_first)
        self._table_dtype = table_dtype
        user_scale, item_scale = degree_scales(weights)
        self._to_users = _Side(weights, user_scale, device)
        self._to_items = _Side(sparse.csr_array(weights.T), item_scale, device)

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        if self._layers == 0:
            return users.clone(), items.clone()
        # [layers, nodes, columns] layer l of a node, scaled as its neighbours read it
        user_tables, item_tables = (
            torch.empty(self._layers, *rows.shape, dtype=self._table_dtype, device=rows.device)
            for rows in (users, items)
        )
        self._to_users.scale_into(user_tables[0], users)
        self._to_items.scale_into(item_tables[0], items)
        for layer in range(1, self._layers):
            self._to_users.gather(item_tables[layer - 1], into=user_tables[layer])
            self._to_items.gather(user_tables[layer - 1], into=item_tables[layer])
        return (
            self._to_users.mean_with_last(item_tables[-1], users, user_tables, self._n_first),
            self._to_items.mean_with_last(user_tables[-1], items, item_tables, self._n_first),
        )


class _Side:
    """Messages to the users, or to the items."""

    def __init__(self, weights: sparse.csr_array, scale: np.ndarray, device: torch.device):
        sizes = np.diff(weights.indptr)
        self._starts = torch.from_numpy(weights.indptr.astype(np.int32)).to(device)
        self._neighbours = torch.from_numpy(weights.indices.astype(np.int32)).to(device)
        has_weights = bool((weights.data != 1).any())
        self._weights = torch.from_numpy(weights.data).to(device, torch.float32) if has_weights else None
        self._scale = torch.from_numpy(scale).to(device, torch.float32)
        # The longest rows first: one that began last would keep the whole device waiting.
        self._order = torch.from_numpy(np.argsort(-sizes, kind="stable").astype(np.int32)).to(device)

    def scale_into(self, table: Tensor, rows: Tensor) -> None:
        """The rows as the other side reads them."""
        n_rows, n_columns = rows.shape
        # torch's own is slow to write a table of another type.
        grid = (n_rows, triton.cdiv(n_columns, SCALED_AT_ONCE))
        _scale_rows[grid](rows, self._scale, table, n_columns, COLUMNS=SCALED_AT_ONCE, num_warps=2)

    def gather(self, table: Tensor, into: Tensor) -> None:
        """The next layer, as the other side reads it."""
        self._launch(table, into, into, into, n_first=0, n_between=0, is_last=False)

    def mean_with_last(self, table: Tensor, first: Tensor, tables: Tensor, n_first: int) -> Tensor:
        """The mean of layer 0 (if `n_first` is 1), the layers in between, and the last one, which is gathered here."""
        mean = torch.empty_like(first)
        self._launch(table, mean, first, tables, n_first=n_first, n_between=len(tables) - 1, is_last=True)
        return mean

    def _launch(
        self, table: Tensor, into: Tensor, first: Tensor, tables: Tensor, *, n_first: int, n_between: int, is_last: bool
    ) -> None:
        n_rows, n_columns = into.shape
        edges, warps, columns = _shape(n_columns, table.dtype)
        # Rows run fastest: a block of columns of the table stays in the cache while all rows read it.
        grid = (n_rows, triton.cdiv(n_columns, columns))
        _gather[grid](
            self._starts, self._neighbours, self._weights, self._scale, self._order, table, into, first, tables,
            n_columns, n_rows * n_columns, HAS_WEIGHTS=self._weights is not None, IS_LAST=is_last, N_FIRST=n_first,
            N_BETWEEN=n_between, EDGES=edges, COLUMNS=columns, num_warps=warps,
        )  # fmt: skip


def _shape(n_columns: int, dtype: torch.dtype) -> tuple[int, int, int]:
    """Edges at once, warps and columns of a program. Few columns leave few programs, so each must have many rows on the
    way; many columns hide the waiting. By times on one H200, on the graphs of Epinions, Pinterest and Yelp2018."""
    if dtype == torch.bfloat16:
        return (16, 2, 64) if n_columns <= 128 else (8, 1, 128 if n_columns <= 512 else 256)
    return (16, 2, 64) if n_columns <= 256 else (8, 1, 64)


@triton.jit  # type: ignore[untyped-decorator]
def _scale_rows(rows, scale, table, n_columns, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < n_columns
    places = row * n_columns + columns
    values = tl.load(rows + places, mask=is_column) * tl.load(scale + row)
    tl.store(table + places, values.to(table.dtype.element_ty), mask=is_column)


@triton.jit  # type: ignore[untyped-decorator]
def _gather(  # type: ignore[no-untyped-def]
    starts, neighbours, weights, scale, order, table, into, first, tables, n_columns, table_size,
    HAS_WEIGHTS: tl.constexpr, IS_LAST: tl.constexpr, N_FIRST: tl.constexpr, N_BETWEEN: tl.constexpr,
    EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One row of the result, one block of its columns."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < n_columns
    begin, end = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((EDGES, COLUMNS), tl.float32)
    for edge in range(begin, end, EDGES):
        edges = edge + tl.arange(0, EDGES)
        is_edge = edges < end
        near = tl.load(neighbours + edges, mask=is_edge, other=0).to(tl.int64)
        places = near[:, None] * n_columns + columns[None, :]
        rows = tl.load(table + places, mask=is_edge[:, None] & is_column[None, :], other=0.0).to(tl.float32)
        if HAS_WEIGHTS:
            rows *= tl.load(weights + edges, mask=is_edge, other=0.0)[:, None]
        total += rows
    row_scale = tl.load(scale + row)
    layer = tl.sum(total, axis=0) * row_scale
    places = row * n_columns + columns
    if IS_LAST:
        between = tl.zeros((COLUMNS,), tl.float32)
        for number in tl.static_range(1, N_BETWEEN + 1):
            # In 64 bits: several tables can have more than 2³¹ numbers.
            of_layer = places + number * table_size.to(tl.int64)
            between += tl.load(tables + of_layer, mask=is_column).to(tl.float32)
        # A node without edges has scale 0, and nothing in between.
        between = tl.where(row_scale > 0, between / row_scale, 0.0)
        total_of_layers = tl.load(first + places, mask=is_column) * N_FIRST + between + layer
        tl.store(into + places, total_of_layers / (N_FIRST + N_BETWEEN + 1), mask=is_column)
    else:
        tl.store(into + places, (layer * row_scale).to(into.dtype.element_ty), mask=is_column)
