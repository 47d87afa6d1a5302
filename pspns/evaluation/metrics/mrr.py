"""MRR@k: how early the first held-out item comes, as one over its rank."""

from __future__ import annotations

import torch
from torch import Tensor


def reciprocal_rank(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """1 / rank of the first hit, 0 if it is not among the first k; the mean over users is the MRR.

    >>> hits = torch.tensor([[False, True, True], [False, False, True]])
    >>> reciprocal_rank(hits, torch.tensor([2, 2]), 2).tolist()
    [0.5, 0.0]
    """
    first_k = hits[:, :k]
    ranks = torch.arange(1, first_k.shape[1] + 1, dtype=torch.float64, device=hits.device)
    return (first_k / ranks).amax(-1)  # of all hits, the first has the largest 1 / rank


COMPONENT = reciprocal_rank
