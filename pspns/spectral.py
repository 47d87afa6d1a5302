"""The global pattern: a truncated SVD of the degree-normalised interaction matrix."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

# Up to here the Gram matrix of the smaller side is cheap, and nothing need be left to chance.
EXACT_UP_TO = 1_000
OVERSAMPLING = 10
POWER_PASSES = 7


def truncated_svd(
    matrix: sparse.csr_array, rank: int, rng: np.random.Generator, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """U `[users, rank]`, S `[rank]` falling, V `[items, rank]` of D_u^-½ B D_i^-½, B being the 0/1 matrix.

    Exact where the smaller side has at most 1,000 rows; otherwise randomized (Halko, Martinsson, Tropp 2011) with 10
    extra columns and 7 power passes.
    """
    operator = Normalised(matrix, device)
    if min(matrix.shape) <= EXACT_UP_TO:
        return _exact(operator, rank)
    return _randomized(operator, rank, rng)


class Normalised:
    """x ↦ D_u^-½ (B (D_i^-½ x)) and its transpose; the normalised values are never stored."""

    def __init__(self, matrix: sparse.csr_array, device: torch.device | str):
        self.shape = matrix.shape
        self._matrix = _to_torch(matrix, device)
        self._transposed = _to_torch(sparse.csr_array(matrix.T), device)
        self._user_scale, self._item_scale = (
            # A user or item without pairs keeps an empty row: 0, not 1/√0.
            torch.from_numpy(np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)).to(device, torch.float32)
            for degree in (np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=matrix.shape[1]))
        )

    def times(self, x: Tensor) -> Tensor:
        """`[items, n]` → `[users, n]`."""
        return self._user_scale[:, None] * (self._matrix @ (self._item_scale[:, None] * x))

    def transposed_times(self, y: Tensor) -> Tensor:
        """`[users, n]` → `[items, n]`."""
        return self._item_scale[:, None] * (self._transposed @ (self._user_scale[:, None] * y))

    def dense(self) -> Tensor:
        return self._user_scale[:, None] * self._matrix.to_dense() * self._item_scale


def _exact(operator: Normalised, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    dense = operator.dense().double()
    wide = dense.shape[0] <= dense.shape[1]
    small = dense if wide else dense.T
    values, vectors = torch.linalg.eigh(small @ small.T)
    first, S = vectors.flip(1)[:, :rank], values.flip(0)[:rank].clamp_min(0).sqrt()
    second = small.T @ first * _inverse(S)
    U, V = (first, second) if wide else (second, first)
    return U.float(), S.float(), V.float()


def _randomized(operator: Normalised, rank: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    n_users, n_items = operator.shape
    width = min(rank + OVERSAMPLING, n_users, n_items)
    start = rng.standard_normal((n_items, width)).astype(np.float32)
    Q = _orthonormal(operator.times(torch.from_numpy(start).to(operator._user_scale.device)))
    for _ in range(POWER_PASSES):
        # Halko 2011, alg. 4.4: without orthonormalising between passes, small singular values drown.
        Q = _orthonormal(operator.times(_orthonormal(operator.transposed_times(Q))))
    projected = operator.transposed_times(Q).double()  # [items, width], the transpose of QᵀA
    values, W = torch.linalg.eigh(projected.T @ projected)
    W, S = W.flip(1)[:, :rank], values.flip(0)[:rank].clamp_min(0).sqrt()
    return (Q.double() @ W).float(), S.float(), (projected @ W * _inverse(S)).float()


def _orthonormal(Y: Tensor) -> Tensor:
    """An orthonormal basis of Y's columns, from the Gram matrix.

    Twice, because one pass squares the condition number; not by QR, whose bits depend on the number of threads.
    """
    for _ in range(2):
        values, vectors = torch.linalg.eigh(Y.double().T @ Y.double())
        Y = (Y.double() @ (vectors * _inverse(values.clamp_min(0).sqrt()))).float()
    return Y


def _inverse(values: Tensor) -> Tensor:
    """1 / x, and 0 for what is 0 up to rounding: a direction the matrix does not have."""
    return torch.where(values > 1e-7 * values.max(), 1 / values, 0)


def _to_torch(matrix: sparse.csr_array, device: torch.device | str) -> Tensor:
    with warnings.catch_warnings():
        # torch calls its CSR tensors beta; only products with dense matrices are used here, and tests check those.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )
