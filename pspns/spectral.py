"""The global pattern: a truncated SVD of the degree-normalised interaction matrix."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales, to_torch

# Up to here the Gram matrix of the smaller side is cheap, and nothing need be left to chance.
EXACT_UP_TO = 1_000
OVERSAMPLING = 10
POWER_PASSES = 7


def truncated_svd(
    matrix: sparse.csr_array,
    rank: int,
    rng: np.random.Generator,
    device: torch.device | str = "cpu",
    *,
    exact: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """U `[users, rank]`, S `[rank]` falling, V `[items, rank]` of D_u^-½ B D_i^-½, B being the 0/1 matrix.

    Exact where the smaller side has at most 1,000 rows, or where asked for; otherwise randomized (Halko, Martinsson,
    Tropp 2011) with 10 extra columns and 7 power passes.
    """
    if is_exact(matrix.shape, exact=exact):
        return _exact(matrix, rank, device)
    return _randomized(Normalised(matrix, device), rank, rng)


def is_exact(shape: tuple[int, int], *, exact: bool = False) -> bool:
    """Is the SVD of a matrix of this shape exact, because it is small or because that was asked for?"""
    return exact or min(shape) <= EXACT_UP_TO


class Normalised:
    """x ↦ D_u^-½ (B (D_i^-½ x)) and its transpose; the normalised values are never stored."""

    def __init__(self, matrix: sparse.csr_array, device: torch.device | str):
        self.shape = matrix.shape
        self._matrix = to_torch(matrix, device)
        self._transposed = to_torch(sparse.csr_array(matrix.T), device)
        self._user_scale, self._item_scale = (
            torch.from_numpy(scale).to(device, torch.float32) for scale in degree_scales(matrix)
        )
        self.device = self._user_scale.device

    def times(self, x: Tensor) -> Tensor:
        """`[items, n]` → `[users, n]`."""
        return self._user_scale[:, None] * (self._matrix @ (self._item_scale[:, None] * x))

    def transposed_times(self, y: Tensor) -> Tensor:
        """`[users, n]` → `[items, n]`."""
        return self._item_scale[:, None] * (self._transposed @ (self._user_scale[:, None] * y))


def _exact(matrix: sparse.csr_array, rank: int, device: torch.device | str) -> tuple[Tensor, Tensor, Tensor]:
    """From the eigenvectors of the Gram matrix of the smaller side; all in float64, the larger side never dense."""
    user_scale, item_scale = degree_scales(matrix)
    scaled = sparse.diags_array(user_scale) @ matrix.astype(np.float64) @ sparse.diags_array(item_scale)
    small = scaled if matrix.shape[0] <= matrix.shape[1] else scaled.T
    first, S = _largest(torch.from_numpy((small @ small.T).toarray()), rank)
    second = torch.from_numpy(small.T @ first.numpy()) * _inverse(S)
    U, V = (first, second) if matrix.shape[0] <= matrix.shape[1] else (second, first)
    return U.to(device, torch.float32), S.to(device, torch.float32), V.to(device, torch.float32)


def _randomized(operator: Normalised, rank: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    n_users, n_items = operator.shape
    width = min(rank + OVERSAMPLING, n_users, n_items)
    start = rng.standard_normal((n_items, width)).astype(np.float32)
    Q = _orthonormal(operator.times(torch.from_numpy(start).to(operator.device)))
    for _ in range(POWER_PASSES):
        # Halko 2011, alg. 4.4: without orthonormalising between passes, small singular values drown.
        Q = _orthonormal(operator.times(_orthonormal(operator.transposed_times(Q))))
    projected = operator.transposed_times(Q).double()  # [items, width], the transpose of QᵀA
    W, S = _largest(gram(projected), rank)
    return (Q.double() @ W).float(), S.float(), (projected @ W * _inverse(S)).float()


def _orthonormal(Y: Tensor) -> Tensor:
    """An orthonormal basis of Y's columns, from the Gram matrix; twice, because one pass squares the condition."""
    for _ in range(2):
        vectors, lengths = _largest(gram(Y.double()), Y.shape[1])
        Y = (Y.double() @ (vectors * _inverse(lengths))).float()
    return Y


def gram(Y: Tensor) -> Tensor:
    """YᵀY with the same bits for any number of threads: a long inner dimension would be shared out among them."""
    if Y.is_cuda:
        return Y.T @ Y
    total = torch.zeros(Y.shape[1], Y.shape[1], dtype=Y.dtype)
    for shard in torch.split(Y, 256):
        total += shard.T @ shard
    return total


def _largest(gram: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Eigenvectors of the `rank` largest eigenvalues, largest first, and the roots of those values."""
    n_threads = torch.get_num_threads()
    try:
        # LAPACK's bits depend on the number of threads, and the matrix is small: a GPU would take longer.
        torch.set_num_threads(1)
        values, vectors = torch.linalg.eigh(gram.cpu())
    finally:
        torch.set_num_threads(n_threads)
    vectors, values = vectors.to(gram.device), values.to(gram.device)
    return vectors.flip(1)[:, :rank], values.flip(0)[:rank].clamp_min(0).sqrt()


def _inverse(values: Tensor) -> Tensor:
    """1 / x, and 0 for what is 0 up to rounding: a direction the matrix does not have."""
    return torch.where(values > 1e-7 * values.max(), 1 / values, 0)
