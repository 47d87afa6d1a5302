"""Denoisers beside published figures, on files made up in the published form."""

import gzip
import json
import sys

import numpy as np
import pytest
import torch

from benchmarks import denoiser_anchors
from benchmarks.denoiser_anchors import CHOICES, Anchor, NoisyMovies


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("train.rating", 400), ("valid.rating", 60), ("test.clean", 50)):
        keys = rng.choice(40 * 30, size=n, replace=False)
        ratings = np.full(n, 5) if name == "test.clean" else rng.integers(1, 6, n)
        lines = [f"{1 + key // 30}\t{key % 30}\t{rating}\n" for key, rating in zip(keys, ratings, strict=True)]
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress("".join(lines).encode()))
    return tmp_path


def curve(*losses):
    return {epoch: {"valid-loss": loss, "clean-valid-loss": loss} for epoch, loss in enumerate(losses, 1)}


def test_how_an_epoch_is_chosen():
    assert CHOICES["valid-loss"](curve(3, 1, 2)) == 2
    stop = CHOICES["two rises of valid-loss"]
    assert stop(curve(5, 4, 4.5, 3, 3.5, 1)) == 5  # rises need not follow each other
    assert stop(curve(5, 4, 3)) == 3


def test_each_anchor_trains_and_is_set_beside_what_was_published(folder, monkeypatch):
    short = [
        Anchor(
            anchor.name,
            {1 if isinstance(wanted, int) else wanted: figures for wanted, figures in anchor.published.items()},
            epochs=2,
            denoiser=anchor.denoiser,
            owned_too=anchor.owned_too,
            batch_size=256,
            l2=anchor.l2,
            look_every=1,
        )
        for anchor in denoiser_anchors.ANCHORS
    ]
    monkeypatch.setattr(denoiser_anchors, "ANCHORS", short)
    words = ["--data", folder, "--seeds", 2, "--device", "cpu", "--out", folder]
    monkeypatch.setattr(sys, "argv", ["denoiser_anchors", *map(str, words)])
    denoiser_anchors.main()
    rows = json.loads((folder / "denoiser-anchors.json").read_text())["results"]
    assert {row["method"] for row in rows} == {anchor.name for anchor in short}
    assert all(0 <= float(row["found"]) <= 1 for row in rows)
    chosen = [row for row in rows if row["method"] == "ERM" and "revised" in str(row["epoch"])]
    assert len(chosen) == 2  # recall and NDCG


def test_losses_are_those_of_validation_and_of_its_fives(folder):
    curve = NoisyMovies(folder, torch.device("cpu")).train(Anchor("plain", {}, epochs=1, look_every=1), [0])[0][1]
    losses = ["valid-loss", "revised-valid-loss", "clean-valid-loss"]
    # Hardly trained, so scores are near 0, and each loss near log 2; but they are of different pairs.
    assert [curve[name] for name in losses] == pytest.approx([np.log(2)] * 3, abs=0.05)
    assert curve["valid-loss"] != curve["clean-valid-loss"]
    assert curve["revised-valid-loss"] < curve["valid-loss"]
