"""Every option changes what it should: an option that is accepted and ignored would pass all other tests."""

import hashlib

import numpy as np
import pytest
import torch
from toy import given_split, random_pairs

from pspns.api import fit, load
from pspns.evaluation.ranking import METRICS
from pspns.positives.psp import PspPositives
from pspns.run import run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings

COMMON = {"model": "mf", "steps": 6, "batch_size": 256, "embedding_size": 8, "threads": 1, "baselines": False}


def digest(**options) -> str:
    """A fingerprint of the trained vectors of one replica and of the split they were trained on."""
    model = fit(load("planted-clustered"), **{**COMMON, "device": "cpu", "seeds": [0], **options})
    sha = hashlib.sha256(model.split.fingerprint().encode())
    for tensor in model.scorer.tensors().values():
        sha.update(tensor.numpy().tobytes())
    return sha.hexdigest()


@pytest.fixture(scope="module")
def plain() -> str:
    return digest()


def test_the_same_options_give_the_same_bits(plain):
    assert digest() == plain


@pytest.mark.parametrize(
    "options",
    [
        {"start": "normal"},
        {"start": "normal", "spread": 0.5},
        {"start": "spectral"},
        {"model": "lightgcn"},
        {"recipe": "recommended"},
        {"loss": "bce"},
        {"negatives": "negatives_for_tests:LowestNegatives"},
        {"denoiser": "denoisers_for_tests:ConstantWeight"},
        {"denoiser": "denoisers_for_tests:ConstantWeight", "weight": 0.25},
        {"seeds": [1]},
        {"data_seed": 1},
        {"noise": 0.1},
        {"split": "per-user"},
        {"split.name": "random", "test_share": 0.2},
        {"learning_rate": 0.01},
        {"training.l2": 0.1},
        {"batch_size": 128},
        {"steps": 7},
        {"embedding_size": 16},
        {"positives": "repeated"},
        {"positives": "psp", "rank": 5},
        {"positives": "psp", "rank": 5, "copies": 4},
        {"positives": "agreement", "rank": 9},
        {"weighting": "log"},
        {"weighting": "log", "sensitivity": 0.5},
        {"recipe": "paper"},
    ],
    ids=str,
)
def test_each_option_changes_the_model(plain, options):
    assert digest(**options) != plain


def test_options_do_not_shadow_each_other():
    found = [
        digest(positives="psp", rank=5),
        digest(positives="psp", rank=5, copies=4),
        digest(positives="psp", rank=5, copies_together=True),
        digest(positives="psp", rank=6),
        digest(positives="psp", rank=5, neighbours="fixed"),
        digest(positives="psp", rank=5, times_root_degree=True),
        digest(positives="psp", rank=5, weighting="log"),
        digest(positives="psp", rank=5, weighting="capped", sensitivity=0.5),
    ]
    assert len(set(found)) == len(found)


def test_options_of_a_graph_do_not_shadow_each_other():
    found = [
        digest(model="lightgcn", positives="psp", rank=5, **options)
        for options in (
            {},
            {"layers": 2},
            {"graph": "merged"},
            {"graph": "merged-weighted"},
            {"start": "spectral"},
            {"start": "spectral", "score_spread": 1.0},
        )
    ]
    assert len(set(found)) == len(found)


def test_published_drops_what_is_held_out():
    """A builder that proposes held-out pairs loses them, and only under `published`."""
    data = given_split(60, 40, 600)
    shares = {}
    for protocol in ("strict", "published"):
        settings = Settings(
            positives=PspPositives(rank=8),
            training=TrainingSettings(steps=2, batch_size=64),
            evaluation=EvaluationSettings(k=(5,), select_by="recall@5"),
            run=RunSettings(protocol=protocol, device="cpu", baselines=False),
        )
        finished = run(data, settings)
        split, pairs = finished.split, finished.positives
        held_out = {(u, i) for part in (split.valid, split.test) for u, i in zip(part.users, part.items, strict=True)}
        shares[protocol] = sum((u, i) in held_out for u, i in zip(pairs.users, pairs.items, strict=True))
        assert finished.positives_facts["dropped_because_held_out"] == (0 if protocol == "strict" else shares["strict"])
    assert shares["strict"] > 0
    assert shares["published"] == 0


def test_users_unknown_to_train_are_ranked_by_train_not_by_what_is_held_out():
    # Users 40 and 41 occur only in the test, each with the item that is rarest in train.
    train = random_pairs(30, 20, 200, np.random.default_rng(0))
    rarest = int(np.argsort(-np.bincount(train.items), kind="stable")[-1])
    data = given_split(30, 20, 200, held_out=np.array([(40, rarest, 2), (41, rarest, 2)]))
    settings = Settings(
        training=TrainingSettings(steps=2, batch_size=64),
        evaluation=EvaluationSettings(k=(1, 20), select_by="recall@1"),
        run=RunSettings(protocol="best-on-test", device="cpu", baselines=False),
    )
    finished = run(data, settings)
    assert (finished.rankings.test.users >= finished.split.n_users).tolist() == [True, True]
    assert finished.model.test[0].per_user["recall@1"].tolist() == [0.0, 0.0]
    assert finished.model.test[0].per_user["mrr@20"].tolist() == [1 / 20, 1 / 20]  # last of the twenty


def test_the_settled_defaults():
    training, settings = TrainingSettings(), Settings()
    assert (training.loss, training.batch_size, training.learning_rate, training.l2) == ("bpr", 2048, 1e-3, 1e-4)
    assert (training.patience, training.max_steps, training.steps) == (10, 200_000, None)
    assert settings.model.embedding_size == 64
    assert (settings.run.protocol, settings.run.seeds, settings.run.data_seed) == ("strict", (0,), 0)
    assert (settings.evaluation.k, settings.evaluation.select_by) == ((20, 30), "recall@20")
    assert METRICS[:3] == ("recall", "precision", "ndcg")


def test_threads_are_set():
    before = torch.get_num_threads()
    try:
        digest(threads=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
