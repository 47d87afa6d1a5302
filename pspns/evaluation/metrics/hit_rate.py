"""Hit rate@k: is at least one held-out item among the first k?"""

from __future__ import annotations

from torch import Tensor


def hit_rate(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """1 for a user with a hit in the first k, else 0; the mean over users is the rate.

    >>> import torch
    >>> hits = torch.tensor([[False, True, True], [False, False, True]])
    >>> hit_rate(hits, torch.tensor([2, 2]), 2).tolist()
    [1.0, 0.0]
    """
    return hits[:, :k].any(-1).double()


COMPONENT = hit_rate
