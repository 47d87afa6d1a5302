"""NDCG@k: hits in the first k, worth less at later ranks, as a share of the best possible list."""

from __future__ import annotations

import torch
from torch import Tensor


def ndcg(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """Σ 1 / log₂(r + 1) over the ranks r ≤ k of hits / the same sum over r = 1 … min(k, held-out items).

    A hit at rank 3 is worth 1 / log₂ 4 = 1/2; the best list for one held-out item is worth 1:

    >>> ndcg(torch.tensor([[False, False, True]]), torch.tensor([1]), 3).tolist()
    [0.5]
    """
    first_k = hits[:, :k]
    gains = 1 / torch.arange(2, k + 2, dtype=torch.float64, device=hits.device).log2()  # [k]
    # Running sums above and below add in one order, so that a perfect list gives 1, not 1 ± rounding.
    gained = (first_k * gains[: first_k.shape[1]]).cumsum(-1)[:, -1]
    best = gains.cumsum(-1)[n_relevant.clamp(max=k) - 1]
    return gained / best


COMPONENT = ndcg
