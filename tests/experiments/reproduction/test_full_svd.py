"""A full SVD beside the randomized one: the same leading singular values, and what becomes of the claim."""

import numpy as np
import pytest
import torch

from pspns.data.planted import plant
from pspns.errors import PspnsError
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Terms
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _full_svd
from pspns.experiments.reproduction._full_svd import full_singular_values, full_svd_is_costly, record_name
from pspns.experiments.sections import Section

TERMS = Terms(device="cpu", changes=(("positives.rank", 4),))
NO_TABLES = Experiment("", "", lambda records, data: Section("", "", ()), jobs=_full_svd.jobs)


@pytest.fixture
def records(tmp_path):
    world = plant("clustered", n_users=80, n_items=60, rng=np.random.default_rng(0), mean_preferences=12)
    records = Records(tmp_path)
    carry_out({"ml-1m": [NO_TABLES]}, records, TERMS, lambda name: world.interactions)
    return records


def test_both_come_to_the_same_leading_singular_values(records):
    record = records.find(record_name("ml-1m"))
    assert record["rank"] == 4
    assert record["converges"]
    assert 0 < record["furthest_apart"] < 1e-2  # the randomized one is not exact
    assert record["seconds"]["full"] > 0
    assert record["seconds"]["randomized"]["median"] > 0


def test_where_ours_is_exact_nothing_is_compared(records):
    assert records.find(record_name("ml-1m"))["exact_svd"]
    verdict = full_svd_is_costly(records, ["ml-1m"], "strict")
    assert verdict.word == "not measured"
    assert "1,000 rows" in verdict.why


def test_full_singular_values_are_numpys_and_none_where_there_are_none():
    dense = np.random.default_rng(0).random((9, 6)).astype(np.float32)
    expected = np.linalg.svd(dense.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(full_singular_values(torch.from_numpy(dense)), expected, rtol=1e-5)
    dense[2, 3] = np.nan
    assert full_singular_values(torch.from_numpy(dense)) is None


def test_it_is_refused_where_memory_does_not_suffice(tmp_path, monkeypatch):
    monkeypatch.setattr(_full_svd, "TABLES_HELD", 1e12)
    world = plant("clustered", n_users=80, n_items=60, rng=np.random.default_rng(0), mean_preferences=12)
    with pytest.raises(PspnsError, match=r"a full SVD of .* × .* needs about"):
        carry_out({"ml-1m": [NO_TABLES]}, Records(tmp_path), TERMS, lambda name: world.interactions)


@pytest.mark.parametrize(
    ("full", "converges", "word"),
    [(20.0, True, "holds in part"), (2.0, True, "does not hold"), (20.0, False, "holds")],
)
def test_the_verdict_is_of_seconds_and_of_an_end(full, converges, word, tmp_path):
    records = Records(tmp_path)
    records.write(record_name("ml-1m"), {
        "exact_svd": False,
        "seconds": {"full": full, "randomized": {"median": 1.0}},
        "rank": 50,
        "converges": converges,
        "furthest_apart": 0.001 if converges else None,
        "machine": {"device": "cpu"},
    })  # fmt: skip
    verdict = full_svd_is_costly(records, ["ml-1m"], "strict")
    assert verdict.word == word
    assert f"{full:.0f} times as long" in " ".join(one.figures for one in verdict.outcomes)


def test_nobodys_own_data_are_decomposed(tmp_path):
    assert list(_full_svd.jobs("plays")) == []
    assert [job.alone for job in _full_svd.jobs("yelp2018-part")] == [True]
    assert full_svd_is_costly(Records(tmp_path), ["plays"], "strict").why.startswith(
        "measured on the paper's data sets"
    )
