"""Curves and their table, from a tiny data set."""

import json
import sys

import numpy as np
import pytest

from benchmarks import time_to_quality
from pspns.data.arrays import write_arrays
from pspns.data.planted import plant
from pspns.data.split import GivenSplit
from pspns.data.splits.random import RandomSplit


@pytest.fixture
def path(tmp_path):
    world = plant("clustered", n_users=150, n_items=120, rng=np.random.default_rng(0))
    parts = RandomSplit().assign(world.interactions, np.random.default_rng(0))
    write_arrays(GivenSplit(world.interactions, parts, "tiny"), tmp_path / "tiny.npz")
    return tmp_path / "tiny.npz"


def test_from_curves_to_seconds(path, monkeypatch):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["time_to_quality", *map(str, arguments)])
        time_to_quality.main()

    call("curves", "--data", path, "--max-steps", 40, "--out", path.parent / "curves.json")
    curves = json.loads((path.parent / "curves.json").read_text())["curves"]
    assert {(model, recipe) for model in curves for recipe in curves[model]} == {
        (model, recipe) for model in ("mf", "lightgcn") for recipe in ("plain", "recommended")
    }
    call("table", "--data", path, "--curves", path.parent / "curves.json", "--out", path.parent)
    rows = json.loads((path.parent / "time-to-quality-tiny.json").read_text())["results"]
    plain, recommended, *_, ease = rows
    best_step, goal = max(curves["mf"]["plain"], key=lambda point: point[1])
    assert (plain["steps"], plain["Recall@20 on validation"]) == (best_step, round(goal, 4))
    reached = [step for step, value in curves["mf"]["recommended"] if value >= goal]
    assert recommended["steps"] == (reached[0] if reached else None)
    assert plain["seconds"] == pytest.approx(plain["built in, s"] + best_step * plain["ms a step"] / 1e3, abs=0.06)
    assert ease["model"] == "ease"
    assert ease["seconds"] >= 0
