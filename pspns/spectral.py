"""The global pattern: a truncated SVD of the degree-normalised interaction matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales, to_torch

# Up to here the Gram matrix of the smaller side is cheap, and nothing need be left to chance.
EXACT_UP_TO = 1_000
OVERSAMPLING = 10
POWER_PASSES = 7
# Of a column beside the others, the longest being 1: what is shorter drowns in the rounding of a float32 Gram matrix.
LEAST_LENGTH = 1e-2
SHARD_ROWS = 512
# Sums over users go from shard to shard, so that a matrix gives the same bits in memory and read from disk.
SHARD_PAIRS = 1 << 23


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
    return randomized_svd(Normalised.of(matrix, device), rank, rng)


def is_exact(shape: tuple[int, int], *, exact: bool = False) -> bool:
    """Is the SVD of a matrix of this shape exact, because it is small or because that was asked for?"""
    return exact or min(shape) <= EXACT_UP_TO


@dataclass(frozen=True)
class Shard:
    """The rows of B of some users, one after the other, and their transpose."""

    users: slice
    rows: Tensor  # CSR [users of the shard, items]
    columns: Tensor  # CSR [items, users of the shard]

    @classmethod
    def of(cls, rows: sparse.csr_array, first_user: int, device: torch.device | str) -> Shard:
        users = slice(first_user, first_user + rows.shape[0])
        return cls(users, to_torch(rows, device), to_torch(sparse.csr_array(rows.T), device))


def shard_bounds(starts: NDArray[np.integer]) -> list[tuple[int, int]]:
    """The first user of each shard and the one after its last; `starts` are those of the CSR matrix.

    A shard ends with the user who fills its pairs up, so the bounds depend on the matrix alone.
    """
    firsts = np.flatnonzero(np.diff(starts[:-1] // SHARD_PAIRS, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(starts) - 1], strict=True))


class Normalised:
    """A = D_u^-½ B D_i^-½ as products with it; the normalised values are never stored."""

    def __init__(
        self,
        shards: Iterable[Shard],
        user_scale: NDArray[np.float64],
        item_scale: NDArray[np.float64],
        device: torch.device | str,
    ):
        """`shards` are gone through once for each product; together they hold every user's row."""
        self.shape = len(user_scale), len(item_scale)
        self._shards = shards
        self._user_scale, self._item_scale = (
            torch.from_numpy(scale).to(device, torch.float32)[:, None] for scale in (user_scale, item_scale)
        )
        self.device = self._user_scale.device

    @classmethod
    def of(
        cls,
        matrix: sparse.csr_array,
        device: torch.device | str,
        scales: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> Normalised:
        """`scales`: of users and items, in place of the reciprocal roots of their degrees."""
        bounds = shard_bounds(matrix.indptr)
        # A slice copies, and most matrices are one shard.
        rows = [matrix] if len(bounds) == 1 else [matrix[first:last] for first, last in bounds]
        shards = [Shard.of(part, first, device) for part, (first, _) in zip(rows, bounds, strict=True)]
        return cls(shards, *(scales or degree_scales(matrix)), device)

    def times(self, x: Tensor) -> Tensor:
        """A x: `[items, n]` → `[users, n]`."""
        scaled = self._item_scale * x
        product = x.new_empty(self.shape[0], x.shape[1])
        for shard in self._shards:
            product[shard.users] = (shard.rows @ scaled).mul_(self._user_scale[shard.users])
        return product

    def transposed_times(self, y: Tensor) -> Tensor:
        """Aᵀ y: `[users, n]` → `[items, n]`."""
        products = (shard.columns @ (self._user_scale[shard.users] * y[shard.users]) for shard in self._shards)
        return reduce(Tensor.add_, products).mul_(self._item_scale)

    def there_and_back(self, x: Tensor) -> Tensor:
        """Aᵀ A x: `[items, n]` → `[items, n]`."""
        scaled = self._item_scale * x
        products = (
            shard.columns @ (shard.rows @ scaled).mul_(self._user_scale[shard.users].square()) for shard in self._shards
        )
        return reduce(Tensor.add_, products).mul_(self._item_scale)


def _exact(matrix: sparse.csr_array, rank: int, device: torch.device | str) -> tuple[Tensor, Tensor, Tensor]:
    """From the eigenvectors of the Gram matrix of the smaller side; all in float64, the larger side never dense."""
    user_scale, item_scale = degree_scales(matrix)
    scaled = sparse.diags_array(user_scale) @ matrix.astype(np.float64) @ sparse.diags_array(item_scale)
    small = scaled if matrix.shape[0] <= matrix.shape[1] else scaled.T
    gram_of_rows = torch.from_numpy((small @ small.T).toarray())
    if len(gram_of_rows) > EXACT_UP_TO:
        gram_of_rows = gram_of_rows.to(device)
    first, S = (found.cpu() for found in _largest(gram_of_rows, rank))
    second = torch.from_numpy(small.T @ first.numpy()) * _inverse(S)
    U, V = (first, second) if matrix.shape[0] <= matrix.shape[1] else (second, first)
    return U.to(device, torch.float32), S.to(device, torch.float32), V.to(device, torch.float32)


def randomized_svd(operator: Normalised, rank: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Halko's algorithm 4.4, seen from the items: A (AᵀA)⁷ Ω spans what (AAᵀ)⁷ A Ω does, and items are mostly fewer."""
    n_users, n_items = operator.shape
    width = min(rank + OVERSAMPLING, n_users, n_items)
    start = rng.standard_normal((n_items, width)).astype(np.float32)
    basis = torch.from_numpy(start).to(operator.device)
    for _ in range(POWER_PASSES):
        # Without orthonormalising between passes, small singular values drown.
        basis = _orthonormal(operator.there_and_back(basis))
    Q = _orthonormal(_orthonormal(operator.times(basis)))  # again, because once leaves rounding times the condition
    projected = operator.transposed_times(Q)  # [items, width], the transpose of QᵀA
    W, S = _largest(gram(projected.double()), rank)
    return Q @ W.float(), S.float(), (projected.double() @ (W * _inverse(S))).float()


def _orthonormal(Y: Tensor) -> Tensor:
    """An orthonormal basis of Y's columns, from the Cholesky factor of their Gram matrix."""
    factor, failed = torch.linalg.cholesky_ex(gram(Y).cpu())
    lengths = factor.diagonal()
    if failed or lengths.min() < LEAST_LENGTH * lengths.max():
        return _orthonormal_if_dependent(Y)
    inverse: Tensor = torch.linalg.solve_triangular(factor, torch.eye(len(factor), dtype=factor.dtype), upper=False)
    return Y @ inverse.T.to(Y.device, Y.dtype)


def _orthonormal_if_dependent(Y: Tensor) -> Tensor:
    """The same where columns are nearly dependent; twice, because one pass squares the condition."""
    for _ in range(2):
        vectors, lengths = _largest(gram(Y.double()), Y.shape[1])
        Y = (Y.double() @ (vectors * _inverse(lengths))).float()
    return Y


def gram(Y: Tensor) -> Tensor:
    """YᵀY in float64, with the same bits for any number of threads: a long inner dimension would be shared out."""
    if Y.is_cuda:
        return (Y.T @ Y).double()
    total = torch.zeros(Y.shape[1], Y.shape[1], dtype=torch.float64)
    for shard in torch.split(Y, SHARD_ROWS):
        total += shard.T @ shard
    return total


def _largest(gram: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Eigenvectors of the `rank` largest eigenvalues, largest first, and the roots of those values."""
    n_threads = torch.get_num_threads()
    try:
        # LAPACK's bits depend on the number of threads. A GPU takes longer, unless the matrix is large: then it is a
        # matter of seconds or of ten minutes.
        torch.set_num_threads(1)
        values, vectors = torch.linalg.eigh(gram if len(gram) > EXACT_UP_TO else gram.cpu())
    finally:
        torch.set_num_threads(n_threads)
    vectors, values = vectors.to(gram.device), values.to(gram.device)
    return vectors.flip(1)[:, :rank], values.flip(0)[:rank].clamp_min(0).sqrt()


def _inverse(values: Tensor) -> Tensor:
    """1 / x, and 0 for what is 0 up to rounding: a direction the matrix does not have."""
    return torch.where(values > 1e-7 * values.max(), 1 / values, 0)
