"""ranx: Recall of lists that blocked torch has made."""

from __future__ import annotations

import numpy as np
from ranx import Qrels, Run, evaluate

from benchmarks.peers._blocked_lists import blocked_lists
from benchmarks.peers._given import Given, K
from benchmarks.peers._turns import Task, serve


def ranking(given: Given) -> Task:
    users, rank = blocked_lists(given)
    names = [str(user) for user in users.tolist()]
    item_names = np.array([str(item) for item in range(given.n_items)])
    wanted = np.split(item_names[given.test[:, 1]], np.flatnonzero(np.diff(given.test[:, 0])) + 1)
    qrels = Qrels({name: dict.fromkeys(items.tolist(), 1) for name, items in zip(names, wanted, strict=True)})

    def judge() -> float:
        items, scores = rank()
        run = Run(
            {
                name: dict(zip(row.tolist(), values, strict=True))
                for name, row, values in zip(names, item_names[items.numpy()], scores.tolist(), strict=True)
            }
        )
        return float(evaluate(qrels, run, f"recall@{K}"))

    return Task(judge, lambda recall: {"recall": recall})


if __name__ == "__main__":
    serve("ranx", {"ranking": ranking})
