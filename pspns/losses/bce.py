"""BCE: positives are labelled 1, negatives 0, each scored on its own."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def bce(positive_scores: Tensor, negative_scores: Tensor) -> Tensor:
    """½ (−ln σ(s⁺) − ln(1 − σ(s⁻))): the mean over the two samples of a row.

    >>> import torch
    >>> round(bce(torch.tensor(0.0), torch.tensor(0.0)).item(), 4)
    0.6931
    """
    return (F.softplus(-positive_scores) + F.softplus(negative_scores)) / 2


COMPONENT = bce
