"""Real runs, small enough to train in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pspns.api import fit
from pspns.data.planted import plant

# Early stopping that never comes: all seeds see the same three evaluations, at steps 4, 8 and 12.
SMALL = {
    "model": "mf",
    "seeds": (0, 1),
    "embedding_size": 8,
    "batch_size": 256,
    "learning_rate": 0.05,
    "max_steps": 12,
    "evaluate_every": 4,
    "patience": 100,
    "k": (5, 10),
    "select_by": "recall@5",
    "inactive": 30,
}

RUNS = {
    "plain": {},
    "normal": {"start": "normal"},
    "published": {"protocol": "published"},
    "best-on-test": {"protocol": "best-on-test"},
    "denoised": {"denoiser": "t-ce", "ramp_steps": 8},
    "other-k": {"start": "normal", "k": (5, 7), "inactive": 20},
    "apart-k": {"k": (7,), "select_by": "recall@7", "baselines": False},
}


def small_world(seed: int):
    rng = np.random.default_rng(seed)
    return plant("clustered", n_users=120, n_items=60, rng=rng, mean_preferences=20, mean_interactions=15).interactions


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Name → folder; all but `other-data` and the noisy ones are on the same pairs."""
    parent = tmp_path_factory.mktemp("runs")
    world = small_world(0)
    for name, options in RUNS.items():
        fit(world, out=parent / name, **{**SMALL, **options})
    fit(small_world(1), out=parent / "other-data", **SMALL)
    for name, options in {"noisy": {"denoiser": "t-ce", "ramp_steps": 8}, "noisy-plain": {}}.items():
        fit(world, out=parent / name, noise=0.3, **SMALL, **options)
    without_loop = {"k": (5, 10), "select_by": "recall@5", "inactive": 30}
    fit(world, out=parent / "svd", model="svd", **without_loop)
    fit(world, out=parent / "no-test", model="popular", split="none")
    return {folder.name: folder for folder in parent.iterdir()}
