"""The k best of each row, ties to the lower column: for lists that are offered and for pairs that are proposed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Scores are made in blocks of rows. A block is filled up to at least the smaller number: with fewer rows a matrix
# product takes another path, whose last bits differ, and results must not depend on how much memory there was.
MIN_ROWS = 32


def max_rows(device: torch.device) -> int:
    """Rows of a block: as many as keep the device busy, not so many that they leave its cache."""
    return 256 if device.type == "cpu" else 2048


def best_items(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row, best first, ties to the lower item number; −1 for what scores −∞.

    >>> best_items(torch.tensor([[0.5, 1.0, 0.5, -torch.inf]]), 2)[0].tolist()
    [[1, 0]]
    """
    n_found = min(k, scores.shape[1])
    # One more than asked for shows whether an equal of the last one was left out.
    values, items = scores.topk(min(k + 1, scores.shape[1]), dim=-1)
    unsure = (values[:, n_found - 1] == values[:, -1]) & (values[:, -1] > -torch.inf)
    values, items = values[:, :n_found], items[:, :n_found]
    # torch.topk promises nothing about ties: among the chosen, order by number, then stably by score …
    items, by_number = items.sort(dim=-1)
    values, by_score = values.gather(-1, by_number).sort(dim=-1, descending=True, stable=True)
    items = items.gather(-1, by_score)
    # … and where it may have chosen the wrong one of two equals, sort the whole row.
    if n_found < scores.shape[1] and bool(unsure.any()):
        items[unsure] = scores[unsure].sort(dim=-1, descending=True, stable=True).indices[:, :n_found]
    items = items.masked_fill(values == -torch.inf, -1)
    return F.pad(items, (0, k - n_found), value=-1), F.pad(values, (0, k - n_found), value=-torch.inf)
