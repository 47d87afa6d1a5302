"""The k best of each row, ties to the lower column: for lists that are offered and for pairs that are proposed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.item_sets import ItemSets

# Scores are made in blocks of rows. A block is filled up to at least the smaller number: with fewer rows a matrix
# product takes another path, whose last bits differ, and results must not depend on how much memory there was.
MIN_ROWS = 32


def max_rows(device: torch.device) -> int:
    """Rows of a block: as many as keep the device busy, not so many that they leave its cache."""
    return 128 if device.type == "cpu" else 2048


def best_items(
    scores: Tensor, k: int, known: ItemSets | None = None, users: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row, best first, ties to the lower item number; −1 for what scores −∞.

    With `known` sets, the items of user `users[r]` are left out of row r, as if they scored −∞.

    >>> best_items(torch.tensor([[0.5, 1.0, 0.5, -torch.inf]]), 2)[0].tolist()
    [[1, 0]]
    """
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        if known is not None and users is not None:
            # Out of place: scores may be a scorer's own.
            scores = scores.index_put(known.entries(users), scores.new_tensor(-torch.inf))
        return best_by_torch(scores, k)
    if known is None or users is None:
        known, users = ItemSets(1, scores.shape[1]), torch.zeros(len(scores), dtype=torch.int64)
    return _best_by_counting(scores, k, known, users)


def _best_by_counting(scores: Tensor, k: int, known: ItemSets, users: Tensor) -> tuple[Tensor, Tensor]:
    from pspns.kernels.selection import best_first  # waits for numba, which a GPU does not need

    items, values = torch.empty(len(scores), k, dtype=torch.int64), torch.empty(len(scores), k)
    tensors = (scores.detach().contiguous(), known.starts, known.items, users, items, values)
    best_first(*(tensor.numpy() for tensor in tensors))
    return items, values


def best_by_torch(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same on other devices than the CPU, where nothing is left out but what scores −∞."""
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
