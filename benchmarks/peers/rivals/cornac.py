"""Cornac: BPR by stochastic gradient descent, LightGCN and full ranking."""

from __future__ import annotations

from itertools import islice

import numpy as np
import torch
from cornac.data import Dataset
from cornac.eval_methods.base_method import ranking_eval
from cornac.metrics import Recall
from cornac.models import BPR
from numpy.typing import NDArray

from benchmarks.peers._given import BATCH, LAYERS, SIZE, Given, K
from benchmarks.peers._turns import Task, serve

LEARNING_RATE = 0.05


def dataset(given: Given, pairs: NDArray[np.int64]) -> Dataset:
    """With our numbers for users and items."""
    ratings = np.ones(len(pairs))
    numbers = [{number: number for number in range(n)} for n in (given.n_users, given.n_items)]
    return Dataset(given.n_users, given.n_items, *numbers, (*pairs.T.astype(np.int32), ratings), seed=0)


def mf(given: Given) -> Task:
    train_set = dataset(given, given.train)

    def train() -> BPR:
        # No seed: it would silently leave one thread.
        return BPR(k=SIZE, max_iter=given.epochs, learning_rate=LEARNING_RATE, num_threads=2).fit(train_set)

    # One number more, by which the product adds the item's bias.
    return Task(
        train, lambda model: {"users": model.get_user_vectors(), "items": model.get_item_vectors()}, given.epochs
    )


def lightgcn(given: Given) -> Task:
    from cornac.models.lightgcn.lightgcn import Model, construct_graph  # needs dgl, which the others do not

    train_set = dataset(given, given.train)
    graph = construct_graph(train_set, given.n_users, given.n_items)
    model = Model(graph, SIZE, LAYERS, lambda_reg=1e-4)
    with torch.no_grad():
        model.feature_dict["user"].copy_(torch.from_numpy(given.user_vectors))
        model.feature_dict["item"].copy_(torch.from_numpy(given.item_vectors))
        users, items, _ = model(graph)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def take_steps() -> None:
        # The body of its LightGCN.fit, which knows only whole epochs.
        for batch in islice(train_set.uij_iter(batch_size=BATCH, shuffle=True), given.steps):
            loss, _, _ = model.loss_fn(*model(graph, *batch))
            loss.item()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return Task(take_steps, lambda _: {"users": users.numpy(), "items": items.numpy()}, given.steps)


def ranking(given: Given) -> Task:
    train_set, valid_set, test_set = (dataset(given, part) for part in (given.train, given.valid, given.test))
    vectors = {"U": given.user_vectors, "V": given.item_vectors}
    model = BPR(k=SIZE, trainable=False, init_params=vectors).fit(train_set)

    def judge() -> float:
        (recall,), _ = ranking_eval(model, [Recall(k=K)], train_set, test_set, valid_set)
        return float(recall)

    return Task(judge, lambda recall: {"recall": recall})


if __name__ == "__main__":
    serve("cornac", {"mf": mf, "lightgcn": lightgcn, "ranking": ranking})
