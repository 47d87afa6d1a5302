"""What recommendation lists are like apart from their hits: how much of the catalogue, how popular."""

from __future__ import annotations

import torch
from torch import Tensor


def item_coverage(lists: Tensor, n_items: int) -> float:
    """The share of all items that are in at least one list.

    `lists` holds item numbers, `[users, k]`, −1 where a list is shorter than k.

    >>> item_coverage(torch.tensor([[0, 2], [2, -1]]), n_items=4)
    0.5
    """
    is_recommended = torch.zeros(n_items, dtype=torch.bool, device=lists.device)
    is_recommended[lists[lists >= 0]] = True
    return int(is_recommended.sum()) / n_items


def mean_popularity(lists: Tensor, train_counts: Tensor) -> float:
    """Train pairs of a recommended item: the mean over each list, then over users; empty lists are left out.

    `lists` as in `item_coverage`; `train_counts` are the train pairs of each item, `[n_items]`. The result is
    nan if every list is empty.

    The first list averages (10 + 2) / 2 = 6, the second 4, the third does not count:

    >>> mean_popularity(torch.tensor([[0, 2], [1, -1], [-1, -1]]), torch.tensor([10, 4, 2]))
    5.0
    """
    is_item = lists >= 0
    lengths = is_item.sum(-1)  # [users]
    counts = train_counts[lists.clamp(min=0)].double() * is_item  # [users, k]
    means = counts.sum(-1) / lengths
    return float(means[lengths > 0].mean())
