"""Precision@k: the share of the first k places that hold held-out items."""

from __future__ import annotations

from torch import Tensor


def precision(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """hits in the first k / k, also for a user with fewer than k held-out items or a list shorter than k.

    >>> import torch
    >>> precision(torch.tensor([[True, False, True]]), torch.tensor([4]), 5).tolist()
    [0.4]
    """
    return hits[:, :k].sum(-1).double() / k


COMPONENT = precision
