"""Message passing without weights: each layer averages neighbours symmetrically, the result is the mean of all layers.

The operator is (1 / (L+1)) Σ_l Ã^l with Ã = D^-½ A D^-½ over users and items together. It is symmetric, so the
gradient passes back through the very same operator, as often as one likes.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales, to_torch
from pspns.memory import MemoryBudget

# MKL multiplies 4, 8, … 24 columns by kernels of their own, which round otherwise: were there fewer columns than these,
# a replica's bits would depend on its company.
LEAST_COLUMNS = 32


class MeanOfLayers(Protocol):
    """The operator, in whichever way it is computed."""

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """`[n_users, columns]` and `[n_items, columns]` → the same."""


def propagate(operator: MeanOfLayers, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """The operator on `[nodes, replicas, size]` tables, differentiable any number of times."""
    shapes = users.shape, items.shape
    found = _Symmetric.apply(users.flatten(1), items.flatten(1), operator)  # type: ignore[no-untyped-call]
    return found[0].view(shapes[0]), found[1].view(shapes[1])


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, operator: MeanOfLayers) -> tuple[Tensor, Tensor]:
        ctx.operator = operator
        # A gradient may lie in memory in any way (that of a sum is one number for all); kernels read row by row.
        return operator.apply(users.contiguous(), items.contiguous())

    @staticmethod
    def backward(ctx: Any, user_gradient: Tensor, item_gradient: Tensor) -> Any:
        found = _Symmetric.apply(user_gradient, item_gradient, ctx.operator)  # type: ignore[no-untyped-call]
        return *found, None


class SparseLayers:
    """One sparse product for each layer and side, for all replicas at once; the plain form, and the one on the CPU."""

    def __init__(
        self, weights: sparse.csr_array, layers: int, device: torch.device, dtype: torch.dtype = torch.float32
    ):
        user_scale, item_scale = degree_scales(weights)
        normalised = sparse.csr_array(sparse.diags_array(user_scale) @ weights @ sparse.diags_array(item_scale))
        self._to_users = to_torch(normalised, device, dtype)
        self._to_items = to_torch(sparse.csr_array(normalised.T), device, dtype)
        self._layers = layers

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        n_columns = users.shape[1]
        if n_columns < LEAST_COLUMNS:
            users, items = (F.pad(table, (0, LEAST_COLUMNS - n_columns)) for table in (users, items))
        # Horner's rule: 1 + Ã + Ã² + … = 1 + Ã (1 + Ã (1 + …)), so that a layer is one product that adds as it goes.
        user_sum, item_sum = users, items
        for _ in range(self._layers):
            user_sum, item_sum = (
                users.clone().addmm_(self._to_users, item_sum),
                items.clone().addmm_(self._to_items, user_sum),
            )
        return user_sum[:, :n_columns] / (self._layers + 1), item_sum[:, :n_columns] / (self._layers + 1)


class DenseProduct:
    """The whole operator as one matrix for the tensor cores, which multiply numbers rounded to 11 bits (TF32).

    On a graph that is small and dense this is many times faster than following its edges.
    """

    def __init__(self, sparse_form: MeanOfLayers, n_users: int, n_items: int, device: torch.device):
        everyone = torch.eye(n_users + n_items, device=device)
        self._matrix = torch.cat(sparse_form.apply(everyone[:n_users].contiguous(), everyone[n_users:].contiguous()))
        self._n_users = n_users

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        precision = torch.backends.cuda.matmul.fp32_precision
        try:
            torch.backends.cuda.matmul.fp32_precision = "tf32"
            found = self._matrix @ torch.cat((users, items))
        finally:
            torch.backends.cuda.matmul.fp32_precision = precision
        return found[: self._n_users], found[self._n_users :]


def best_operator(weights: sparse.csr_array, layers: int, memory: MemoryBudget, *, mixed: bool = False) -> MeanOfLayers:
    """The fastest form for this graph on this device; only `mixed` may round what is multiplied."""
    device = memory.device
    if device.type == "cpu":
        return SparseLayers(weights, layers, device)
    from pspns.models._gathered_layers import GatheredLayers  # needs Triton, which comes with torch for CUDA

    n_users, n_items = weights.shape
    if mixed and _dense_is_faster(n_users + n_items, weights.nnz, layers, memory):
        return DenseProduct(GatheredLayers(weights, layers, device), n_users, n_items, device)
    return GatheredLayers(weights, layers, device, table_dtype=torch.bfloat16 if mixed else torch.float32)


def _dense_is_faster(n_nodes: int, n_edges: int, layers: int, memory: MemoryBudget) -> bool:
    # Measured on one H200: TF32 products run at about 300 TFLOP/s, 16-bit rows are gathered at about 4 TB/s.
    dense_seconds = 2 * n_nodes**2 / 300e12
    gather_seconds = layers * 2 * n_edges * 2 / 4e12
    # While it is made: everyone's own column, each layer's table, and the matrix.
    fits = memory.limit is None or (layers + 2) * 4 * n_nodes**2 < memory.limit
    return fits and dense_seconds < gather_seconds
