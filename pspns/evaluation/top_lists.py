"""The k best items of each user: scores in blocks of users, known items left out, never a table of users × items."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.shapes import Scorer
from pspns.top_k import MIN_ROWS, best_items, max_rows


class TopLists:
    """What is left out for whom, and what to offer those whom the model does not know."""

    def __init__(self, known: ItemSets, train_counts: Tensor, n_users: int, memory: MemoryBudget):
        """`train_counts` `[n_items]` ranks the items for users whose number is `n_users` or above."""
        self._known = known
        self._counts = train_counts.float()
        self._n_users = n_users
        n_items = len(train_counts)
        # Scores, a sorted copy of rows with ties, and top-k's own workspace.
        self._rows = memory.rows(16 * n_items, MIN_ROWS, max_rows(memory.device), f"ranking {n_items:,} items")

    def best(self, scorer: Scorer, replica: int, users: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Items and scores, both `[users, k]`, best first; item −1, score −∞ where nothing is left to offer."""
        # Made before the blocks: small results left between large blocks would keep the memory of all of them.
        items = torch.empty(len(users), k, dtype=torch.int64, device=users.device)
        scores = torch.empty(len(users), k, device=users.device)
        for first in range(0, len(users), self._rows):
            block = slice(first, first + self._rows)
            items[block], scores[block] = self._best_of_block(scorer, replica, users[block], k)
        return items, scores

    def _best_of_block(self, scorer: Scorer, replica: int, users: Tensor, k: int) -> tuple[Tensor, Tensor]:
        filled = F.pad(users, (0, max(0, MIN_ROWS - len(users))))
        is_cold = filled >= self._n_users
        scores = scorer.scores(filled.masked_fill(is_cold, 0), replica)[: len(users)]
        if bool(is_cold.any()):
            # Someone unknown to train can only be offered what is popular.
            scores = torch.where(is_cold[: len(users), None], self._counts, scores)
        return best_items(scores, k, self._known, users)
