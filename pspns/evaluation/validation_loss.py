"""Validation loss: how well scores tell validation pairs from random ones, as another way to choose the best step.

With s⁺ the scores of the n validation pairs and s⁻ those of one random item for each of them,

    valid-loss = (Σ softplus(−s⁺) + Σ softplus(s⁻)) / 2n

and revised-valid-loss is the same without the ⌊trim · n⌋ largest softplus(−s⁺): validation pairs may be noise, too, and
the model that believes them best is not the best model.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from pspns.data.interactions import Floats
from pspns.data.split import Pairs, Split
from pspns.errors import DataError
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.rng import host_stream
from pspns.shapes import Scorer
from pspns.top_k import MIN_ROWS, max_rows

PAIRS_AT_ONCE = 2**16


class ValidationLoss:
    """The validation pairs and their negatives, drawn once, so that every step and every model meets the same."""

    def __init__(self, split: Split, data_seed: int, trim: float, memory: MemoryBudget):
        valid = split.valid
        owned = ItemSets(split.n_users, split.n_items, split.clean_train, valid)
        is_known = (valid.users < split.n_users) & (valid.items < split.n_items)
        has_room = (owned.sizes < split.n_items).numpy()[np.where(is_known, valid.users, 0)]
        is_judged = is_known & has_room
        self.pairs = Pairs(valid.users[is_judged], valid.items[is_judged])
        self.n_left_out = len(valid) - len(self.pairs)
        """Validation pairs whose user or item train does not know, or whose user has every item."""
        if len(self.pairs) == 0:
            raise DataError(
                f"of {len(valid):,} validation pairs none has a user and an item that train knows and leaves an item "
                "for a negative, so there is no validation loss; choose by a metric, such as --select-by recall@20"
            )
        users = torch.from_numpy(self.pairs.users)
        n_free = split.n_items - owned.sizes[users].numpy()
        ranks = host_stream(data_seed, "validation negatives").integers(n_free)
        self.negatives = owned.nth_outside(users, torch.from_numpy(ranks)).numpy()  # [pairs]
        self._n_items = split.n_items
        self._n_kept = len(self.pairs) - math.floor(trim * len(self.pairs) + 1e-9)  # lest 0.29 · 100 be 28
        self._memory = memory
        self._users = users.to(memory.device)
        items = np.stack((self.pairs.items, self.negatives), axis=-1)
        self._items = torch.from_numpy(items).to(memory.device)  # [pairs, 2]

    def of(self, scorer: Scorer, replica: int) -> dict[str, float]:
        """Both losses of one replica."""
        scores = self._scores_of_pairs(scorer, replica)
        # On the host in double: a sum's bits then depend neither on the device nor on the threads.
        positive, negative = np.logaddexp(0, -scores[:, 0]), np.logaddexp(0, scores[:, 1])
        kept = np.partition(positive, self._n_kept - 1)[: self._n_kept]
        n = len(positive)
        return {
            "valid-loss": float((positive.sum() + negative.sum()) / (2 * n)),
            "revised-valid-loss": float((kept.sum() + negative.sum()) / (len(kept) + n)),
        }

    def _scores_of_pairs(self, scorer: Scorer, replica: int) -> Floats:
        """`[pairs, 2]`: of the validation pair and of its negative."""
        found = torch.empty(self._items.shape, dtype=torch.float64)
        if isinstance(scorer, DotProduct):
            size = scorer.users.shape[-1]
            # Vectors of user and items, and their products.
            n_rows = self._memory.rows(20 * size, 1, PAIRS_AT_ONCE, "scoring validation pairs")
            for first in range(0, len(found), n_rows):
                block = slice(first, first + n_rows)
                found[block] = scorer.pair_scores(self._users[block], self._items[block], replica).cpu()
        else:
            self._fill_by_users(found, scorer, replica)
        return found.numpy()

    def _fill_by_users(self, found: Tensor, scorer: Scorer, replica: int) -> None:
        """Through the scores of all items, for models that have no vectors."""
        n_rows = self._memory.rows(8 * self._n_items, MIN_ROWS, max_rows(self._memory.device), "scoring all items")
        users, n_pairs = torch.unique(self._users, return_counts=True)
        ends = [0, *n_pairs.cumsum(0).tolist()]
        for first in range(0, len(users), n_rows):
            last = min(first + n_rows, len(users))
            block = slice(ends[first], ends[last])
            scores = scorer.scores(users[first:last], replica)
            rows = torch.repeat_interleave(torch.arange(last - first, device=users.device), n_pairs[first:last])
            found[block] = scores[rows[:, None], self._items[block]].cpu().double()
