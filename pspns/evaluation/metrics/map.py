"""MAP@k: precision at the rank of each hit, summed and divided by the user's held-out items."""

from __future__ import annotations

import torch
from torch import Tensor


def average_precision(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """Σ precision@r over the ranks r ≤ k that are hits / held-out items; the mean over users is the MAP.

    Divided by all held-out items, as map_cut of trec_eval, not by min(k, held-out items), as some libraries
    do: with more than k held-out items even a perfect list stays below 1.

    Hits at ranks 1 and 3 of 4 held-out items give (1/1 + 2/3) / 4 = 5/12:

    >>> average_precision(torch.tensor([[True, False, True]]), torch.tensor([4]), 3).tolist()
    [0.41666...]
    """
    first_k = hits[:, :k]
    ranks = torch.arange(1, first_k.shape[1] + 1, dtype=torch.float64, device=hits.device)
    precision_at_rank = first_k.cumsum(-1) / ranks  # [users, ≤ k]
    return (first_k * precision_at_rank).sum(-1) / n_relevant


COMPONENT = average_precision
