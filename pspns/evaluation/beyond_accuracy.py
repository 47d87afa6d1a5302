"""What recommendation lists are like apart from their hits: how much of the catalogue, how popular."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def item_coverage(lists: Tensor, n_items: int) -> float:
    """The share of all items that are in at least one list.

    `lists` holds item numbers, `[users, k]`, −1 where a list is shorter than k.

    >>> item_coverage(torch.tensor([[0, 2], [2, -1]]), n_items=4)
    0.5
    """
    # −1 marks the last place, which is no item's.
    is_recommended = torch.zeros(n_items + 1, dtype=torch.bool, device=lists.device)
    is_recommended[lists] = True
    return int(is_recommended[:n_items].sum()) / n_items


def mean_popularity(lists: Tensor, train_counts: Tensor) -> float:
    """Train pairs of a recommended item: the mean over each list, then over users; empty lists are left out.

    `lists` as in `item_coverage`; `train_counts` are the train pairs of each item, `[n_items]`. The result is
    nan if every list is empty.

    The first list averages (10 + 2) / 2 = 6, the second 4, the third does not count:

    >>> mean_popularity(torch.tensor([[0, 2], [1, -1], [-1, -1]]), torch.tensor([10, 4, 2]))
    5.0
    """
    lengths = (lists >= 0).sum(-1)  # [users]
    counts = F.pad(train_counts, (0, 1)).double()  # −1 finds the last one: 0
    means = counts[lists].sum(-1) / lengths
    return float(means[lengths > 0].mean())
