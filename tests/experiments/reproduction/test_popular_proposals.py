"""Proposals with and without the division by root degrees, against dense matrices."""

import json

import numpy as np
import pytest
import torch
from toy import random_pairs

from pspns.data.planted import plant
from pspns.data.split import Pairs
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Terms
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _popular_proposals
from pspns.experiments.reproduction._popular_proposals import (
    AS_IT_IS,
    DIVIDED,
    UndividedSvd,
    normalising_lessens_popularity_bias,
    popularity,
    record_name,
)
from pspns.experiments.sections import Section
from pspns.global_svd import GlobalSvd
from pspns.memory import MemoryBudget
from pspns.shapes import Ground


def ground_of(train, n_users=30, n_items=20):
    return Ground(n_users, n_items, train, 0, MemoryBudget(torch.device("cpu")))


def test_the_undivided_svd_is_that_of_the_dense_matrix():
    ground = ground_of(random_pairs(30, 20, 200, np.random.default_rng(0)))
    dense = ground.train.matrix(30, 20).toarray()
    U, S, V = (factor.double().numpy() for factor in UndividedSvd().factors(ground, 5))
    left, values, right = np.linalg.svd(dense)
    np.testing.assert_allclose(S, values[:5], rtol=1e-4)
    np.testing.assert_allclose(U * S @ V.T, left[:, :5] * values[:5] @ right[:5], atol=1e-4)
    divided = GlobalSvd().factors(ground, 5)[1].double().numpy()
    assert divided[0] == pytest.approx(1)  # of a normalised matrix
    assert S[0] > 2


def test_popularity_by_hand():
    ground = ground_of(Pairs(np.array([0, 1, 2, 0]), np.array([0, 0, 0, 1])))
    assert popularity(Pairs(np.array([0, 5, 7]), np.array([0, 1, 1])), ground) == {
        "mean": pytest.approx((3 + 1 + 1) / 3),
        "items_percent": pytest.approx(100 * 2 / 20),
    }


def test_a_record_has_both_and_what_is_observed(tmp_path):
    interactions = plant("clustered", n_users=80, n_items=60, rng=np.random.default_rng(0), mean_preferences=12)
    records = Records(tmp_path)
    one = Experiment("", "", lambda records, data: Section("", "", ()), jobs=_popular_proposals.jobs)
    terms = Terms(device="cpu", changes=(("positives.rank", 8),))
    carry_out({"toy": [one]}, records, terms, lambda name: interactions.interactions)
    record = json.loads((tmp_path / "popular-proposals-toy.json").read_text())
    found = record["train_pairs_of_items"]
    assert set(found) == {"observed", DIVIDED, AS_IT_IS}
    assert found[DIVIDED]["mean"] < found[AS_IT_IS]["mean"]
    assert record["settings"]["positives"]["rank"] == 8
    assert normalising_lessens_popularity_bias(records, ["toy"], "strict").outcomes[0].records == (record_name("toy"),)


@pytest.mark.parametrize(
    ("divided", "word"), [((3.0, 60.0), "holds"), ((3.0, 40.0), "holds in part"), ((5.0, 40.0), "does not hold")]
)
def test_the_verdict_needs_less_popular_items_and_more_of_them(divided, word, tmp_path):
    records = Records(tmp_path)
    keys = ("mean", "items_percent")
    by_matrix = {
        DIVIDED: dict(zip(keys, divided, strict=True)),
        AS_IT_IS: dict(zip(keys, (4.0, 50.0), strict=True)),
    }
    records.write(record_name("ml-1m"), {"train_pairs_of_items": by_matrix})
    verdict = normalising_lessens_popularity_bias(records, ["ml-1m"], "published")
    assert verdict.word == word
    assert verdict.outcomes[-1].records == ("popular-proposals-ml-1m",)
