"""What denoisers keep of planted worlds, on tiny ones and for few steps."""

from dataclasses import replace

import numpy as np
import pytest

from pspns.data.planted import plant
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _denoised_worlds
from pspns.experiments.reproduction._denoised_worlds import DENOISERS, jobs, record_name
from pspns.experiments.request import QUICK
from pspns.experiments.sections import Section

TERMS = replace(QUICK, max_steps=6, device="cpu", changes=(*QUICK.changes, ("training.evaluate_every", 3)))


class TinyWorld:
    """In place of all three."""

    def plant(self):
        return plant("clustered", n_users=60, n_items=60, rng=np.random.default_rng(0), mean_preferences=20)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_denoised_worlds, "WORLDS", ("planted-clustered",))
        patch.setattr(_denoised_worlds, "MODELS", ("mf",))
        real = _denoised_worlds.find_part
        patch.setattr(
            _denoised_worlds, "find_part", lambda kind, name: TinyWorld if kind == "datasets" else real(kind, name)
        )
        records = Records(tmp_path_factory.mktemp("cells"))
        only_jobs = Experiment("", "", lambda records, data: Section("", "", ()), jobs=jobs)
        carry_out({"other": [only_jobs]}, records, TERMS, lambda name: TinyWorld().plant().interactions)
        return records.find(record_name("planted-clustered", "mf"))


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
