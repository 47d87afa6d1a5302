"""Full ranking of a test part, six metrics at two cut-offs, against the same blocked product with a loop over users."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks._pairs import Timed, time_pairs
from pspns.data.split import Split
from pspns.evaluation.ranking import FullRanking
from pspns.models._dot_product import DotProduct
from pspns.shapes import World


def run(split: Split, world: World) -> Timed:
    torch.manual_seed(0)
    scorer = DotProduct(torch.randn(split.n_users, 1, 64), torch.randn(split.n_items, 1, 64))
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items))
    ranking = FullRanking(split.test, [split.train, split.valid], counts, split.n_users, (20, 30), world.memory)
    owned: dict[int, set[int]] = {}
    for part in (split.train, split.valid):
        for user, item in zip(part.users.tolist(), part.items.tolist(), strict=True):
            owned.setdefault(user, set()).add(item)
    held_out: dict[int, set[int]] = {}
    for user, item in zip(split.test.users.tolist(), split.test.items.tolist(), strict=True):
        held_out.setdefault(user, set()).add(item)

    def ours() -> float:
        return ranking.judge(scorer, 0).overall["recall@20"]

    def reference() -> float:
        recalls = []
        users = sorted(held_out)
        for first in range(0, len(users), 256):
            block = users[first : first + 256]
            scores = scorer.scores(torch.tensor(block), 0)
            for row, user in zip(scores, block, strict=True):
                row[list(owned.get(user, ()))] = -torch.inf
                best = set(row.topk(20).indices.tolist())
                recalls.append(len(best & held_out[user]) / len(held_out[user]))
        return float(np.mean(recalls))

    return time_pairs(
        f"full ranking of {len(ranking.users):,} users", "Recall@20 to 1e-12", "loop over users (Recall@20 only)", ours,
        reference, lambda one, two: abs(one - two) < 1e-12, pairs=7,
    )  # fmt: skip
