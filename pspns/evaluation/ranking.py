"""Full ranking: how well a scorer finds the held-out items among all a user may be offered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pspns.components import find_part, part_names
from pspns.data.interactions import Floats, Ints
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.evaluation.beyond_accuracy import item_coverage, mean_popularity
from pspns.evaluation.top_lists import TopLists
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.shapes import Scorer
from pspns.sorted_keys import distinct

# The usual ones first, then whatever else lies in the folder.
USUAL = ("recall", "precision", "ndcg", "hit-rate", "mrr", "map")
METRICS = (*USUAL, *(name for name in part_names("metrics") if name not in USUAL))
# Sums over users run over shards of fixed size, so that they come out the same wherever the shards lie.
SHARD_USERS = 4096


@dataclass(frozen=True)
class Ranked:
    """How good one replica's lists were."""

    per_user: dict[str, Floats]  # metric@k → [users], in the order of FullRanking.users
    overall: dict[str, float]  # metric@k → mean over users; item-coverage@k and mean-popularity@k over all lists


class FullRanking:
    """One held-out part under one mask, ready to judge any scorer."""

    def __init__(
        self,
        held_out: Pairs,
        known: list[Pairs],
        train_counts: Tensor,
        n_users: int,
        cutoffs: tuple[int, ...],
        memory: MemoryBudget,
    ):
        """`known` pairs are left out of the ranking; `train_counts` `[n_items]` are the items' train pairs."""
        if not cutoffs or min(cutoffs) < 1:
            raise SettingsError(f"k must be whole numbers of at least 1, got {cutoffs}; change [evaluation] k")
        device = train_counts.device
        self.users: Ints = distinct(held_out.users)  # users without held-out items are left out
        self.n_cold = int((self.users >= n_users).sum())
        self._counts = train_counts
        self._cutoffs = tuple(sorted(set(cutoffs)))
        self._metrics = {name: find_part("metrics", name) for name in METRICS}
        n_all_users = 1 + max(n_users - 1, *(int(part.users.max(initial=0)) for part in (held_out, *known)))
        n_all_items = 1 + max(len(train_counts) - 1, int(held_out.items.max(initial=0)))
        self._lists = TopLists(
            ItemSets(n_all_users, len(train_counts), *known, device=device), train_counts, n_users, memory
        )
        # Items unknown to train cannot be offered, but they count among what should have been.
        self._held_out = ItemSets(n_all_users, n_all_items, held_out, device=device)

    def judge(self, scorer: Scorer, replica: int) -> Ranked:
        users = torch.from_numpy(self.users).to(self._counts.device)
        lists, _ = self._lists.best(scorer, replica, users, min(max(self._cutoffs), len(self._counts)))
        hits = self._hits(users, lists)
        n_relevant = self._held_out.sizes[users]
        per_user = {
            f"{name}@{k}": metric(hits, n_relevant, k).cpu().numpy()
            for name, metric in self._metrics.items()
            for k in self._cutoffs
        }
        overall = {name: mean_in_shards(values, self.users) for name, values in per_user.items()}
        for k in self._cutoffs:
            overall[f"item-coverage@{k}"] = item_coverage(lists[:, :k], len(self._counts))
            overall[f"mean-popularity@{k}"] = mean_popularity(lists[:, :k], self._counts)
        return Ranked(per_user, overall)

    def _hits(self, users: Tensor, lists: Tensor) -> Tensor:
        """Which places of the lists hold held-out items of their users."""
        if lists.device.type != "cpu":
            return self._held_out.contains(users[:, None], lists.clamp_min(0)) & (lists >= 0)
        from pspns.kernels.membership import mark_members  # waits for numba, which a GPU does not need

        hits = torch.empty(lists.shape, dtype=torch.bool)
        tensors = (self._held_out.starts, self._held_out.items, users, lists, hits)
        mark_members(*(tensor.numpy() for tensor in tensors))
        return hits

    @property
    def n_held_out(self) -> Ints:
        """Held-out items of each user."""
        sizes: Ints = self._held_out.sizes.cpu().numpy()[self.users]
        return sizes


def mean_in_shards(values: Floats, users: Ints) -> float:
    """The mean over users, summed shard by shard of user numbers."""
    return float(np.bincount(users // SHARD_USERS, weights=values).sum() / len(values))
