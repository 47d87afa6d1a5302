"""What denoisers keep of planted worlds, on tiny ones and for few steps."""

from dataclasses import replace

import pytest
from tiny_world import record_of_job

from pspns.experiments.reproduction import _denoised_worlds
from pspns.experiments.reproduction._denoised_worlds import DENOISERS, jobs
from pspns.experiments.request import QUICK

TERMS = replace(QUICK, max_steps=6, device="cpu", changes=(*QUICK.changes, ("training.evaluate_every", 3)))


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return record_of_job(_denoised_worlds, TERMS, tmp_path_factory.mktemp("cells"))


def test_every_denoiser_keeps_some_of_the_truth(record):
    assert record["seeds"] == [0, 1]
    assert list(record["denoisers"]) == list(DENOISERS)
    for found in record["denoisers"].values():
        assert found["steps"] == [6, 6]
        assert all(0 < coverage <= record["observed"]["coverage"] for coverage in found["coverage"])


def test_what_a_denoiser_drops_is_not_covered(record):
    """T-CE gives weights of 0 and 1, so what it keeps covers less; a fifth of what was observed is false."""
    assert max(record["denoisers"]["t-ce"]["coverage"]) < record["observed"]["coverage"]
    assert 0.7 < record["observed"]["accuracy"] < 0.9


def test_seeds_doubt_different_pairs(record):
    first, second = record["denoisers"]["r-ce"]["accuracy"]
    assert first != second
    assert first == pytest.approx(record["observed"]["accuracy"], abs=0.05)


def test_a_job_for_each_world_and_model():
    names = [job.name for job in jobs("ml-1m")]
    assert len(names) == len(set(names)) == 6
    assert "denoised-planted-low-rank-lightgcn" in names
