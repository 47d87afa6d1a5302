"""LensKit: BPR, both of its LightGCNs, full ranking and negatives."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import lenskit.graphs.lightgcn
import numpy as np
import pandas as pd
import torch
from lenskit.batch import recommend
from lenskit.data import BatchIter, Dataset, ItemListCollection, from_interactions_df
from lenskit.flexmf import FlexMFImplicitScorer
from lenskit.graphs.lightgcn import LightGCNScorer
from lenskit.metrics import Recall, RunAnalysis
from lenskit.pipeline import topn_pipeline
from lenskit.training import TrainingOptions
from numpy.typing import NDArray

from benchmarks.peers._given import BATCH, LAYERS, SIZE, Given, K
from benchmarks.peers._turns import Task, serve

OPTIONS = TrainingOptions(device="cpu", rng=0)


def frame(*parts: NDArray[np.int64]) -> pd.DataFrame:
    return pd.DataFrame(np.concatenate(parts), columns=["user_id", "item_id"])


def dataset(given: Given, *parts: NDArray[np.int64]) -> Dataset:
    made = from_interactions_df(frame(*parts))
    # It sorts ids, and ours are whole numbers from 0 on: its numbers are ours.
    for vocabulary, n in ((made.users, given.n_users), (made.items, given.n_items)):
        assert np.array_equal(vocabulary.ids(), np.arange(n))
    return made


def flexible(preset: str, given: Given) -> FlexMFImplicitScorer:
    return FlexMFImplicitScorer(preset=preset, embedding_size=SIZE, batch_size=BATCH, epochs=given.epochs)


def set_vectors(scorer: FlexMFImplicitScorer, given: Given) -> None:
    with torch.no_grad():
        scorer.model.u_embed.weight.copy_(torch.from_numpy(given.user_vectors))
        scorer.model.i_embed.weight.copy_(torch.from_numpy(given.item_vectors))


def vectors(users: torch.Tensor, items: torch.Tensor) -> dict[str, NDArray[np.float32]]:
    return {"users": users.detach().numpy(), "items": items.detach().numpy()}


def mf(given: Given) -> Task:
    train_set = dataset(given, given.train)

    def train() -> Any:
        scorer = flexible("bpr", given)
        scorer.train(train_set, OPTIONS)
        return scorer.model

    return Task(train, lambda model: vectors(model.u_embed.weight, model.i_embed.weight), given.epochs)


def lightgcn(given: Given) -> Task:
    """FlexMF with convolution layers."""
    scorer = flexible("lightgcn", given)
    trainer = scorer.create_trainer(dataset(given, given.train), OPTIONS)
    set_vectors(scorer, given)
    with torch.no_grad():
        scorer.model.update_convolution(trainer.data.ui_matrix, trainer.data.iu_matrix)
        propagated = vectors(scorer.model.u_layers.mean(0), scorer.model.i_layers.mean(0))

    def take_steps() -> None:
        # The body of its train_epoch, which knows only whole epochs.
        for batch in islice(trainer.epoch_data().batches(), given.steps):
            trainer.train_batch(batch)
            trainer.opt.zero_grad()

    return Task(take_steps, lambda _: propagated, given.steps)


def lightgcn_graph(given: Given) -> Task:
    """The experimental one over PyG."""
    # Its train_epoch asks for batches by this name: so many and no more.
    lenskit.graphs.lightgcn.BatchIter = lambda n, size: BatchIter(min(n, given.steps * size), size)
    scorer = LightGCNScorer(embedding_size=SIZE, layer_count=LAYERS, batch_size=BATCH)
    trainer = scorer.create_trainer(dataset(given, given.train), OPTIONS)
    with torch.no_grad():  # its nodes are items, then users
        trainer.model.embedding.weight[: given.n_items] = torch.from_numpy(given.item_vectors)
        trainer.model.embedding.weight[given.n_items :] = torch.from_numpy(given.user_vectors)
        items, users = trainer.model.get_embedding(trainer.edges).split([given.n_items, given.n_users])
    return Task(trainer.train_epoch, partial(lambda found, _: found, vectors(users, items)), given.steps)


def ranking(given: Given) -> Task:
    # What the pipeline is trained on is what it leaves out of the lists; the vectors are set afterwards.
    scorer = FlexMFImplicitScorer(preset="bpr", embedding_size=SIZE, batch_size=BATCH, epochs=1)
    pipeline = topn_pipeline(scorer, n=K)
    pipeline.train(dataset(given, given.train, given.valid), OPTIONS)
    set_vectors(pipeline.node("scorer").component, given)
    test = ItemListCollection.from_df(frame(given.test), ["user_id"])
    users = np.unique(given.test[:, 0]).tolist()

    def judge() -> tuple[ItemListCollection, float]:
        lists = recommend(pipeline, users, K, n_jobs=1)
        analysis = RunAnalysis()
        analysis.add_metric(Recall(K))
        return lists, float(analysis.measure(lists, test).list_summary().loc[f"Recall@{K}", "mean"])

    def answer(found: tuple[ItemListCollection, float]) -> dict[str, float]:
        lists, own_recall = found  # divided by min(K, held-out items)
        shares = [np.isin(wanted.ids(), lists.lookup(key).ids()).mean() for key, wanted in test.items()]
        return {"recall": float(np.mean(shares)), "own_recall": own_recall}

    return Task(judge, answer)


def negatives(given: Given) -> Task:
    matrix = dataset(given, given.train).interactions().matrix()
    rng = np.random.default_rng(0)
    users = given.draw_for.astype(np.int32)
    return Task(
        lambda: matrix.sample_negatives(users, rng=rng),
        lambda drawn: {"items": drawn.astype(np.int64)},
        len(users) / 1e6,
    )


if __name__ == "__main__":
    serve(
        "lenskit",
        {
            "mf": mf,
            "lightgcn": lightgcn,
            "lightgcn-graph": lightgcn_graph,
            "ranking": ranking,
            "negatives": negatives,
        },
    )
