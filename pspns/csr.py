"""Sparse matrices: the scales that normalise them, and their form for torch."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor


def to_torch(matrix: sparse.csr_array, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same matrix as a torch CSR tensor, good for products with dense ones."""
    # 32 bits, where they are enough, are what the library multiplies by.
    number = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    with warnings.catch_warnings():
        # torch calls its CSR tensors beta; only products with dense matrices are used here, and tests check those.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(number)),
            torch.from_numpy(matrix.indices.astype(number)),
            torch.from_numpy(matrix.data).to(dtype),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )


def degree_scales(weights: sparse.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The diagonals of D_u^-½ and D_i^-½, degrees being sums of weights; 0 for a node without edges."""
    # Not weights.sum(dtype=float64), which sums float32 in float32 first.
    degrees = (weights @ np.ones(weights.shape[1]), weights.T @ np.ones(weights.shape[0]))
    user_scale, item_scale = (np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1e-300)), 0.0) for d in degrees)
    return user_scale, item_scale
