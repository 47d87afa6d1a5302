"""What tests share: a small world, models fitted on it once, and the command line."""

from __future__ import annotations

import os

# Before torch is imported: the suite runs one process for each core, and threads that spin while waiting stall each
# other.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["OMP_NUM_THREADS"] = "1"

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pspns.api import fit
from pspns.data.planted import plant
from pspns.recommender import Recommender

torch.set_num_threads(1)

pytest_plugins = ["promises"]


@dataclass(frozen=True)
class FittedRun:
    """A model just fitted, and the folder that was written of it."""

    model: Recommender
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, standard output, standard error."""

    code: Any
    out: str
    err: str


@pytest.fixture(scope="session")
def clicks() -> pl.DataFrame:
    """About 60 users with text ids and 40 items with numbers; 20 more users have one click each."""
    rng = np.random.default_rng(0)
    world = plant("clustered", n_users=60, n_items=40, rng=rng, mean_preferences=12, mean_interactions=9)
    pairs = world.interactions
    users = [f"u{number}" for number in pairs.user_ids[pairs.users]]
    items = 100 + pairs.item_ids[pairs.items]
    # A random split holds out some of the single clicks, and so makes users whom train does not know.
    singles = [f"once{number}" for number in range(20)]
    return pl.DataFrame({"user": users + singles, "item": np.concatenate((items, 100 + np.arange(20)))})


@pytest.fixture(scope="session")
def clicks_file(clicks: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    clicks.write_csv(path)
    return path


@pytest.fixture(scope="session")
def fitted(clicks: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], FittedRun]:
    """The run of a model on `clicks`; mf has three replicas and baselines, and so shows all there is."""

    @cache
    def make(name: str) -> FittedRun:
        folder = tmp_path_factory.mktemp("runs") / name
        more: dict[str, Any] = {"baselines": False}
        if name == "mf":
            more = {"seeds": [3, 0, 7], "steps": 20, "evaluate_every": 10, "embedding_size": 8, "learning_rate": 0.05}
        return FittedRun(fit(clicks, model=name, threads=1, out=folder, k=(5, 10), inactive=20, **more), folder)

    return make


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """The command line in this process: `command("list", "models")`."""
    from pspns.cli import main

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["pspns", *map(str, words)])
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return Outcome(code, *capsys.readouterr())

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages first: running all that they show takes a minute or two, which would be waited for at the end."""
    items.sort(key=lambda item: item.path.name != "test_docs.py")
