"""RecBole: BPR, LightGCN, full ranking and negatives, from files in its own format."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import BPR, LightGCN
from recbole.trainer import Trainer
from recbole.utils import init_seed

from benchmarks.peers._given import BATCH, LAYERS, SIZE, Given, K
from benchmarks.peers._turns import Task, serve

USERS_AT_ONCE = 512


class Prepared:
    """The data as RecBole holds them, and our numbers as its: it keeps 0 for padding and counts by appearance."""

    def __init__(self, given: Given, model: str, **settings: Any):
        folder = Path.cwd()  # which is thrown away afterwards
        write_files(given, folder / "given")
        self.config = Config(
            model=model,
            dataset="given",
            config_dict={
                "data_path": str(folder),
                "checkpoint_dir": str(folder),
                "benchmark_filename": ["train", "valid", "test"],
                "use_gpu": False,
                "state": "ERROR",
                "epochs": given.epochs,
                "train_batch_size": BATCH,
                "embedding_size": SIZE,
                "n_layers": LAYERS,
                "metrics": ["Recall"],
                "topk": [K],
                "valid_metric": f"Recall@{K}",
                "metric_decimal_place": 15,  # by default it rounds to 4
                **settings,
            },
        )
        init_seed(0, reproducibility=True)
        dataset = create_dataset(self.config)
        self.train, _, self.test = data_preparation(self.config, dataset)
        self.users, self.items = (
            dataset.token2id(field, np.arange(n).astype(str))
            for field, n in ((dataset.uid_field, given.n_users), (dataset.iid_field, given.n_items))
        )

    def model(self, kind: type[torch.nn.Module]) -> torch.nn.Module:
        return kind(self.config, self.train.dataset).to(self.config["device"])

    def model_at(self, kind: type[torch.nn.Module], given: Given) -> torch.nn.Module:
        """With the given vectors."""
        model = self.model(kind)
        with torch.no_grad():
            model.user_embedding.weight[self.users] = torch.from_numpy(given.user_vectors)
            model.item_embedding.weight[self.items] = torch.from_numpy(given.item_vectors)
        return model

    def answer(self, users: torch.Tensor, items: torch.Tensor) -> dict[str, NDArray[np.float32]]:
        return {"users": users.detach().numpy()[self.users], "items": items.detach().numpy()[self.items]}


def write_files(given: Given, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("train", "valid", "test"):
        np.savetxt(
            folder / f"given.{name}.inter",
            getattr(given, name),
            fmt="%d",
            delimiter="\t",
            header="user_id:token\titem_id:token",
            comments="",
        )


def mf(given: Given) -> Task:
    prepared = Prepared(given, "BPR")

    def train() -> torch.nn.Module:
        model = prepared.model(BPR)
        Trainer(prepared.config, model).fit(prepared.train, verbose=False, saved=False)
        return model

    def answer(model: torch.nn.Module) -> dict[str, NDArray[np.float32]]:
        return prepared.answer(model.user_embedding.weight, model.item_embedding.weight)

    return Task(train, answer, given.epochs)


def lightgcn(given: Given) -> Task:
    prepared = Prepared(given, "LightGCN")
    model = prepared.model_at(LightGCN, given)
    propagated = prepared.answer(*model())
    optimiser = torch.optim.Adam(model.parameters(), lr=prepared.config["learning_rate"])

    def take_steps() -> None:
        # The body of its Trainer._train_epoch, which knows only whole epochs.
        for batch in islice(prepared.train, given.steps):
            optimiser.zero_grad()
            loss = model.calculate_loss(batch)
            loss.item()
            loss.backward()
            optimiser.step()

    return Task(take_steps, lambda _: propagated, given.steps)


def ranking(given: Given, *, default_batch: bool) -> Task:
    # Its batch size counts scores, not users.
    larger = {} if default_batch else {"eval_batch_size": USERS_AT_ONCE * (given.n_items + 1)}
    prepared = Prepared(given, "BPR", **larger)
    trainer = Trainer(prepared.config, prepared.model_at(BPR, given))
    trainer.eval_collector.data_collect(prepared.train)

    def judge() -> dict[str, float]:
        return trainer.evaluate(prepared.test, load_best_model=False)

    return Task(judge, lambda found: {"recall": found[f"recall@{K}"]})


def negatives(given: Given) -> Task:
    prepared = Prepared(given, "BPR")
    sampler = prepared.train._sampler
    users = prepared.users[given.draw_for]
    our_items = np.empty(given.n_items + 1, dtype=np.int64)
    our_items[prepared.items] = np.arange(given.n_items)
    return Task(
        lambda: sampler.sample_by_user_ids(users, None, 1),
        lambda drawn: {"items": our_items[drawn.numpy()]},
        len(users) / 1e6,
    )


if __name__ == "__main__":
    serve(
        "recbole",
        {
            "mf": mf,
            "lightgcn": lightgcn,
            "ranking": partial(ranking, default_batch=False),
            "ranking-default": partial(ranking, default_batch=True),
            "negatives": negatives,
        },
    )
