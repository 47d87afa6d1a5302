"""Recall@k: the share of a user's held-out items that are among the first k."""

from __future__ import annotations

from torch import Tensor


def recall(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """hits in the first k / held-out items of the user (all of them, even beyond k).

    >>> import torch
    >>> recall(torch.tensor([[True, False, True]]), torch.tensor([4]), 2).tolist()
    [0.25]
    """
    return hits[:, :k].sum(-1).double() / n_relevant


COMPONENT = recall
