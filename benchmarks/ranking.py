"""Full ranking of a test part, six metrics at two cut-offs: against product and top-k alone, and a loop over users.

python -m benchmarks.ranking
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks._generated import tasteful_pairs
from benchmarks._pairs import Timed, time_pairs
from pspns.data.split import Pairs
from pspns.evaluation.ranking import FullRanking
from pspns.evaluation.top_lists import TopLists
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct

CUTOFFS = (20, 30)
ROWS = 128  # of a block in the bare product: the best of 64 to 512
SIZE = 64


@dataclass(frozen=True)
class Task:
    """Whose lists are to be judged."""

    name: str
    n_users: int
    n_items: int
    n_pairs: int

    def parts(self) -> tuple[Pairs, Pairs]:
        """Train and test: every tenth pair is held out."""
        pairs = tasteful_pairs(self.n_users, self.n_items, self.n_pairs)
        is_test = np.arange(len(pairs)) % 10 == 0
        return Pairs(pairs.users[~is_test], pairs.items[~is_test]), Pairs(pairs.users[is_test], pairs.items[is_test])


TASKS = (Task("movielens-sized", 6_000, 3_600, 750_000), Task("gowalla-sized", 30_000, 41_000, 1_000_000))


def run(tasks: tuple[Task, ...] = TASKS) -> Iterator[Timed]:
    for task in tasks:
        yield from compare(task, pairs=7 if task.n_users < 10_000 else 3)


def compare(task: Task, pairs: int) -> Iterator[Timed]:
    """One line for each reference."""
    train, test = task.parts()
    random = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 1, SIZE, generator=random) for n in (task.n_users, task.n_items))
    scorer, counts = DotProduct(users, items), torch.from_numpy(np.bincount(train.items, minlength=task.n_items))
    ranking = FullRanking(test, [train], counts, task.n_users, CUTOFFS, MemoryBudget(torch.device("cpu")))
    judged = torch.from_numpy(ranking.users)
    held_out, known = _sets(test), _sets(train)

    def ours() -> dict[str, float]:
        return ranking.judge(scorer, 0).overall

    def bare() -> list[Tensor]:
        return [(block @ items[:, 0].T).topk(20).indices for block in torch.split(users[judged, 0], ROWS)]

    def unmasked() -> Tensor:
        nothing = ItemSets(task.n_users, task.n_items)
        return TopLists(nothing, counts, task.n_users, MemoryBudget(torch.device("cpu"))).best(scorer, 0, judged, 20)[0]

    def one_by_one() -> float:
        recalls = []
        for block in torch.split(judged, ROWS):
            for user, scores in zip(block.tolist(), users[block, 0] @ items[:, 0].T, strict=True):
                scores[list(known.get(user, ()))] = -torch.inf
                best = scores.topk(20).indices.tolist()
                recalls.append(len(held_out[user].intersection(best)) / len(held_out[user]))
        return float(np.mean(recalls))

    what = f"full ranking, {task.name}: {len(judged):,} users, {task.n_items:,} items"
    yield time_pairs(
        what, "99.9 % of the places in lists, where nothing is masked", "bare product and top-20", ours, bare,
        lambda _, lists: float((torch.cat(lists) == unmasked()).float().mean()) > 0.999, pairs=pairs, target=1 / 1.3,
    )  # fmt: skip
    yield time_pairs(
        what, "Recall@20 to 1e-12", "loop over users, Recall@20 only", ours, one_by_one,
        lambda found, recall: abs(found["recall@20"] - recall) < 1e-12, pairs=pairs,
    )  # fmt: skip


def _sets(pairs: Pairs) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for user, item in zip(pairs.users.tolist(), pairs.items.tolist(), strict=True):
        found.setdefault(user, set()).add(item)
    return found


if __name__ == "__main__":
    for timed in run():
        print(timed.words(), flush=True)
