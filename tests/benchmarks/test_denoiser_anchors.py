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


def test_losses_on_validation_by_hand(folder):
    class Scorer:
        """All vectors (1, 0): every score is 1."""

        users, items = torch.ones(41, 1, 1), torch.ones(31, 1, 1)

    noisy = NoisyMovies(folder, torch.device("cpu"))
    up, down = np.log1p(np.exp(-1)), np.log1p(np.exp(1))
    whole, trimmed = noisy._losses["valid"].losses(Scorer, 0)
    assert whole == pytest.approx((up + down) / 2, rel=1e-6)
    assert trimmed == pytest.approx((0.8 * up + down) / 1.8, rel=1e-6)
