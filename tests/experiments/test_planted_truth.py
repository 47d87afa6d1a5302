"""Accuracy and coverage on planted worlds, on a tiny one and for few steps."""

import json
import sys

import numpy as np
import pytest

from pspns.components import part_names
from pspns.data.planted import plant
from pspns.experiments import planted_truth


@pytest.fixture(scope="module")
def truth():
    return plant("clustered", n_users=60, n_items=60, rng=np.random.default_rng(0), mean_preferences=20)


CHOSEN = {
    "model": {"name": "mf", "embedding_size": 8},
    "training": {"steps": 6, "evaluate_every": 3, "batch_size": 256},
    "run": {"seeds": (0, 1), "device": "cpu", "baselines": False},
}


def test_plain_training_has_the_accuracy_and_coverage_of_what_was_observed(truth, monkeypatch):
    monkeypatch.setattr(planted_truth, "BUILDERS", ("observed",))
    ((_, accuracy, coverage),) = planted_truth.builders(truth, "cpu")
    found = dict(planted_truth.denoisers(truth, CHOSEN))
    assert list(found) == part_names("denoisers")
    assert found["none"]["accuracy"] == pytest.approx([accuracy] * 2)
    assert found["none"]["coverage"] == pytest.approx([coverage] * 2)
    assert 0.5 < accuracy < 1
    for name, figures in found.items():
        assert len(figures["test_recall@20"]) == 2
        assert all(0 < value <= coverage + 1e-12 for value in figures["coverage"]), name
    # What weighs or leaves out pairs covers less; different seeds, different weights.
    assert max(found["t-ce"]["coverage"]) < coverage
    assert found["r-ce"]["accuracy"][0] != found["r-ce"]["accuracy"][1]


def test_the_record_has_every_world(tmp_path, monkeypatch):
    monkeypatch.setattr(planted_truth, "denoisers", lambda truth, chosen: iter([("none", {"chosen": chosen["model"]})]))
    monkeypatch.setattr(planted_truth, "builders", lambda truth, device: iter([("psp", 0.5, 0.25)]))
    words = ["planted_truth", "--models", "mf", "--device", "cpu", "--out", str(tmp_path / "record.json")]
    monkeypatch.setattr(sys, "argv", words)
    planted_truth.main()
    record = json.loads((tmp_path / "record.json").read_text())
    assert list(record["worlds"]) == [name for name in part_names("datasets") if name.startswith("planted-")]
    for found in record["worlds"].values():
        assert found == {
            "builders": {"psp": {"accuracy": 0.5, "coverage": 0.25}},
            "denoisers": {"mf": {"none": {"chosen": {"name": "mf"}}}},
        }
    assert record["machine"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--worlds", "planted-clusterd"), "did you mean 'planted-clustered'"),
        (("--models", "mff"), "no models named 'mff'"),
        (("--seeds", "0"), "seeds must be distinct whole numbers"),
        (("--out", "nowhere/record.json"), "--out: there is no folder"),
    ],
)
def test_mistakes_are_errors_in_a_line(options, reason, tmp_path, monkeypatch, capsys):
    words = ["--worlds", "planted-clustered", "--models", "mf", "--max-steps", "2", "--out", str(tmp_path / "o.json")]
    monkeypatch.setattr(sys, "argv", ["", *words, *options])
    with pytest.raises(SystemExit) as end:
        planted_truth.main()
    assert end.value.code in (1, 2)
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()
