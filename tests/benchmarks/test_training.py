"""The benchmarks of training and negatives on a tiny world: they compare before they time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import negatives, training
from benchmarks._pairs import Timed
from benchmarks._world import movielens_sized
from pspns.item_sets import ItemSets


@pytest.fixture(scope="module")
def small():
    return movielens_sized(n_users=300, n_items=200)


def test_both_models_are_compared_and_timed(small):
    mf, lightgcn = training.run(*small, mf_steps=5, lightgcn_steps=3)
    assert "5 steps of MF" in mf.what
    assert "3 steps of LightGCN" in lightgcn.what
    assert (mf.target, lightgcn.target) == (3.0, 1.3)
    assert min(mf.ours_seconds, mf.reference_seconds, lightgcn.ours_seconds, lightgcn.reference_seconds) > 0


def test_another_result_is_not_timed(small, monkeypatch):
    monkeypatch.setattr(training, "_unchanged", lambda users, items: (users, 2 * items))
    with pytest.raises(AssertionError, match="give different answers"):
        training.run(*small, mf_steps=3, lightgcn_steps=1)


def test_negatives_are_compared_and_timed(small):
    search, table = negatives.run(*small, n_draws=20_000)
    assert search.reference != table.reference
    assert "million a second" in search.note
    assert search.pairs == 15


@pytest.mark.parametrize("wrong", ["known", "skewed"])
def test_wrong_negatives_are_not_timed(small, monkeypatch, wrong):
    split, world = small

    def draw(sets, users, n, stream):
        if wrong == "known":  # each user's first item
            return sets.items[sets.starts[users]][..., None]
        outside = [np.setdiff1d(np.arange(sets.n_items), sets.items[a:b])[0] for a, b in zip(
            sets.starts[:-1].tolist(), sets.starts[1:].tolist(), strict=True)]  # fmt: skip
        return torch.tensor(outside)[users][..., None]

    monkeypatch.setattr(ItemSets, "draw_outside", draw)
    with pytest.raises(AssertionError, match="give different answers"):
        negatives.run(split, world, n_draws=2_000)


def test_a_target_is_met_or_missed():
    def timed(target):
        return Timed("what", "same", "reference", 1.0, 2.0, 7, target)

    assert [timed(target).verdict for target in (1.5, 2.0, 2.5, None)] == ["1.5×: met", "2×: met", "2.5×: missed", "–"]
    slower = Timed("what", "same", "reference", 1.4, 1.0, 7, 1 / 1.3)
    assert slower.verdict == "at most 1.3× as long: missed"
