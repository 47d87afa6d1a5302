"""BPR: the positive should outscore the negative (Rendle et al. 2009)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def bpr(positive_scores: Tensor, negative_scores: Tensor) -> Tensor:
    """−ln σ(s⁺ − s⁻) for each row, written as softplus so that large margins stay finite.

    >>> import torch
    >>> [round(x, 4) for x in bpr(torch.tensor([1.0, -200.0]), torch.tensor([1.0, 0.0])).tolist()]
    [0.6931, 200.0]
    """
    return F.softplus(negative_scores - positive_scores)


COMPONENT = bpr
