"""How alike a denoiser's weights are at two moments: by hand, on a tiny world, and as verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_world import TinyWorld, record_of_job

from pspns.experiments.cells import Cell
from pspns.experiments.planted_truth import WORLDS
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _wavering_denoisers
from pspns.experiments.reproduction._denoised_worlds import DENOISERS, MODELS
from pspns.experiments.reproduction._wavering_denoisers import (
    ALL_THE_SAME,
    BEFORE,
    EARLY,
    LATE,
    alike,
    denoisers_waver,
    moments_of,
    record_name,
)
from pspns.experiments.request import QUICK
from pspns.run import run

TERMS = replace(QUICK, max_steps=24, device="cpu")


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return record_of_job(_wavering_denoisers, TERMS, tmp_path_factory.mktemp("cells"))


def test_a_record_has_two_figures_of_every_denoiser_and_seed(record):
    assert record["steps"] == {EARLY: 6, BEFORE: 18, LATE: 24}
    assert list(record["alike"]) == list(DENOISERS)
    for method, found in record["alike"].items():
        for moment in (EARLY, BEFORE):
            assert len(found[moment]) == len(record["seeds"]) == 2
            # T-CE's drop rate has hardly begun to rise after so few steps.
            assert method == "t-ce" or all(-1 < value < 1 for value in found[moment])


def test_weights_of_a_later_look_are_others(record):
    """R-CE weighs by the scores themselves: a look earlier they are nearly the same, and a lot earlier less so."""
    early, before = record["alike"]["r-ce"][EARLY], record["alike"]["r-ce"][BEFORE]
    assert all(then < now < 1 for then, now in zip(early, before, strict=True))


def test_a_training_begun_anew_is_the_beginning_of_the_longer_one():
    """Else weights of two moments would be those of two trainings."""

    def trained(steps):
        changes = (("training.steps", steps), ("training.evaluate_every", 3))
        settings = Cell("world", "mf", "r-ce", changes=changes).settings(TERMS, "world")
        return run(TinyWorld().plant().interactions, settings, judge_test=False).model.fitted

    short, long = trained(3), trained(6)
    assert short.history[0].metrics == long.history[0].metrics
    assert short.history[0].losses == long.history[0].losses
    assert not np.array_equal(short.pair_weights[0], long.pair_weights[0])


def test_alike_by_hand():
    # With ties at their mean ranks: 1.5 1.5 3.5 3.5 beside 1.5 3.5 1.5 3.5.
    assert alike(np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 0, 1])) == pytest.approx(0)
    assert alike(np.array([3.0, 2, 1]), np.array([1.0, 5, 9])) == pytest.approx(-1)
    assert alike(np.array([1.0, 2, 3]), np.ones(3)) is None


def test_moments_are_looks():
    for most, usual in ((800, 40), (799, 40), (200, 50), (7, 3), (4, 40)):
        found = moments_of(most, usual)
        assert found.steps[EARLY] <= found.steps[BEFORE] < found.steps[LATE] <= most
        assert all(step % found.interval == 0 for step in found.steps.values())
        assert found.steps[LATE] - found.steps[BEFORE] == found.interval


def put(records, early, before):
    """The same of every denoiser, world and model."""
    for world in WORLDS:
        for model in MODELS:
            found = {method: {EARLY: early, BEFORE: before} for method in DENOISERS}
            records.write(record_name(world, model), {"alike": found, "steps": {EARLY: 200, BEFORE: 760, LATE: 800}})


@pytest.mark.parametrize(
    ("early", "before", "word"),
    [([0.1, 0.12, 0.11], [0.4, 0.41, 0.42], "holds"), ([0.9, 0.92, 0.91], [0.4, 0.41, 0.42], "does not hold")],
)
def test_the_verdict(early, before, word, tmp_path):
    put(Records(tmp_path), early, before)
    verdict = denoisers_waver(Records(tmp_path), [], "strict")
    assert verdict.word == word
    assert len(verdict.outcomes) == 30
    assert not verdict.outcomes[0].luck
    assert f"at step 200 by {early[2]:.2f}, with those at step 760 by 0.41" in verdict.outcomes[0].figures


def test_what_may_be_luck_says_so(tmp_path):
    put(Records(tmp_path), [0.1, 0.9, 0.2], [0.4, 0.41, 0.42])
    assert denoisers_waver(Records(tmp_path), [], "strict").outcomes[0].luck.startswith("p = ")


def test_equal_weights_tell_nothing(tmp_path):
    put(Records(tmp_path), [None, 0.1], [0.4, 0.4])
    verdict = denoisers_waver(Records(tmp_path), [], "published")
    assert verdict.word == "not measured"
    assert ALL_THE_SAME in verdict.why
    assert denoisers_waver(Records(tmp_path / "none"), [], "strict").word == "not measured"
