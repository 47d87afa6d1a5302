"""implicit: matrix factorisation with BPR, by stochastic gradient descent."""

from __future__ import annotations

import numpy as np
from implicit.cpu.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix

from benchmarks.peers._given import SIZE, Given
from benchmarks.peers._turns import Task, serve


def mf(given: Given) -> Task:
    users, items = given.train.T
    ones = np.ones(len(users), dtype=np.float32)
    matrix = csr_matrix((ones, (users, items)), shape=(given.n_users, given.n_items))

    def train() -> BayesianPersonalizedRanking:
        model = BayesianPersonalizedRanking(factors=SIZE, iterations=given.epochs, num_threads=2, random_state=0)
        model.fit(matrix, show_progress=False)
        return model

    # Its vectors have one number more, by which the product adds the item's bias.
    return Task(train, lambda model: {"users": model.user_factors, "items": model.item_factors}, given.epochs)


if __name__ == "__main__":
    serve("implicit", {"mf": mf})
