"""ir-measures: Recall of lists that blocked torch has made."""

from __future__ import annotations

import ir_measures
import numpy as np
from ir_measures import Qrel, R, ScoredDoc

from benchmarks.peers._blocked_lists import blocked_lists
from benchmarks.peers._given import Given, K
from benchmarks.peers._turns import Task, serve


def ranking(given: Given) -> Task:
    users, rank = blocked_lists(given)
    names = [str(user) for user in users.tolist()]
    item_names = np.array([str(item) for item in range(given.n_items)])
    qrels = [Qrel(str(user), str(item), 1) for user, item in given.test.tolist()]
    evaluator = ir_measures.evaluator([R @ K], qrels)

    def judge() -> float:
        items, scores = rank()
        run = [
            ScoredDoc(name, item, score)
            for name, row, values in zip(names, item_names[items.numpy()].tolist(), scores.tolist(), strict=True)
            for item, score in zip(row, values, strict=True)
        ]
        return float(evaluator.calc_aggregate(run)[R @ K])

    return Task(judge, lambda recall: {"recall": recall})


if __name__ == "__main__":
    serve("ir-measures", {"ranking": ranking})
