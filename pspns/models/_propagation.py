"""Message passing without weights: each layer averages neighbours symmetrically, the result is the mean of all layers.

The operator is (1 / (L+1)) Σ_l Ã^l with Ã = D^-½ A D^-½ over users and items together. It is symmetric, so the
gradient passes back through the very same operator, as often as one likes. So is the mean without layer 0, which for
one layer is Ã itself.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from pspns import gpu_kernels
from pspns.csr import degree_scales, to_torch
from pspns.memory import MemoryBudget

# MKL multiplies 4, 8, … 24 columns by kernels of their own, which round otherwise: were there fewer columns than these,
# a replica's bits would depend on its company.
LEAST_COLUMNS = 32
# From this share of joined pairs on, products of the whole matrix take less time than following its edges. By times on
# one H200 the two are even at 0.8 % for one replica and 1.2 % for ten in float32, at 1.0 % and 0.9 % in mixed.
DENSE_FROM = 0.01


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
        self,
        weights: sparse.csr_array,
        layers: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        *,
        with_first: bool = True,
    ):
        """Without the first layer, the mean begins at layer 1."""
        user_scale, item_scale = degree_scales(weights)
        normalised = sparse.csr_array(sparse.diags_array(user_scale) @ weights @ sparse.diags_array(item_scale))
        self._to_users = to_torch(normalised, device, dtype)
        self._to_items = to_torch(sparse.csr_array(normalised.T), device, dtype)
        self._layers, self._with_first = layers, with_first

    def apply(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        n_columns = users.shape[1]
        if n_columns < LEAST_COLUMNS:
            users, items = (F.pad(table, (0, LEAST_COLUMNS - n_columns)) for table in (users, items))
        # Horner's rule: 1 + Ã + Ã² + … = 1 + Ã (1 + Ã (1 + …)), so that a layer is one product that adds as it goes;
        # the last one also divides.
        user_sum, item_sum = users, items
        for layer in range(1, self._layers + 1):
            is_last = layer == self._layers
            share = 1 / (self._layers + self._with_first) if is_last else 1.0
            added = share if self._with_first or not is_last else 0.0
            user_sum, item_sum = (
                torch.addmm(users, self._to_users, item_sum, beta=added, alpha=share),
                torch.addmm(items, self._to_items, user_sum, beta=added, alpha=share),
            )
        if n_columns < LEAST_COLUMNS or not self._layers:
            return user_sum[:, :n_columns].clone(), item_sum[:, :n_columns].clone()
        return user_sum, item_sum


def best_operator(
    weights: sparse.csr_array, layers: int, memory: MemoryBudget, *, mixed: bool = False, with_first: bool = True
) -> MeanOfLayers:
    """The fastest form for this graph on this device; only `mixed` may round by more than float32 does.

    Without the first layer, the mean begins at layer 1.
    """
    device = memory.device
    if device.type == "cpu" or not gpu_kernels.are_there():
        return SparseLayers(weights, layers, device, with_first=with_first)
    from pspns.models._dense_layers import DenseLayers
    from pspns.models._gathered_layers import GatheredLayers

    if layers and _dense_is_faster(weights, memory) and DenseLayers.runs_on(device):
        return DenseLayers(weights, layers, device, pieces=1 if mixed else 2, with_first=with_first)
    table_dtype = torch.bfloat16 if mixed else torch.float32
    return GatheredLayers(weights, layers, device, table_dtype=table_dtype, with_first=with_first)


def _dense_is_faster(weights: sparse.csr_array, memory: MemoryBudget) -> bool:
    """Also: does it fit, and are all weights exact in 16 bits?"""
    n_cells = math.prod(weights.shape)
    # 16 bits both ways round, and once more while they are made; a run has up to four operators: one for training, one
    # for what is kept, one for who is folded in, one for samplers that read layers.
    fits = memory.limit is None or 4 * 6 * n_cells < memory.limit
    is_dense = bool(weights.nnz > DENSE_FROM * n_cells)
    return fits and is_dense and bool((weights.data.astype(np.float16) == weights.data).all())
