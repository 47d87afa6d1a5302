"""Rounds of trials: fair, recorded, the same bits however often they are stopped, and blind to the test."""

import dataclasses
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from toy import given_split

from pspns.data.split import GivenSplit, Part
from pspns.data.splits.none import NoSplit
from pspns.errors import DataError, PspnsError, SettingsError
from pspns.memory import MemoryBudgetError
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.models.svd import SvdRanking
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.dns_m_n import BestOfManyNegatives
from pspns.options import read_settings_file, resolve
from pspns.positives.psp import PspPositives
from pspns.run import run
from pspns.search_space import Choices, Span
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings
from pspns.tuning import study as study_module
from pspns.tuning.methods import with_values
from pspns.tuning.study import Study, tune
from pspns.tuning.study_folder import study_folder
from pspns.weightings.log import LogWeighting

TRAINING = TrainingSettings(max_steps=30, evaluate_every=10, batch_size=128, patience=2)
COMMON = {
    "model": MatrixFactorisation(embedding_size=8),
    "training": TRAINING,
    "evaluation": EvaluationSettings(k=(5,), select_by="recall@5"),
    "run": RunSettings(seeds=(0, 3), device="cpu", checkpoint_seconds=0),
}
BASES = {
    "plain": Settings(**COMMON),
    "paper": Settings(**COMMON, positives=PspPositives(rank=4), weighting=LogWeighting()),
}
L2 = Span(low=1e-4, high=1e-1, log=True)
SPACES = {
    "plain": {"training.learning_rate": Choices((0.02, 0.05)), "training.l2": L2},
    "paper": {
        "training.learning_rate": Choices((0.02, 0.05)), "training.l2": L2, "positives.rank": Choices((4, 8)),
    },
}  # fmt: skip
STUDY = Study(BASES, SPACES, trials=5, at_once=3)


@pytest.fixture(scope="module")
def data():
    return given_split(60, 40, 600)


def carry_out(data, out, study=STUDY, *, resume=False, overwrite=False, **told):
    with study_folder(out, resume=resume, overwrite=overwrite) as folder:
        return tune(data, study, folder, **told)


def files(out: Path) -> dict[str, str]:
    """Everything a study wrote but for the time it took."""
    found = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.name != "study.json"):
        text = path.read_text()
        if path.parent.name == "trials":
            text = json.dumps({**json.loads(text), "seconds": None})
        found[str(path.relative_to(out))] = text
    return found


@pytest.fixture(scope="module")
def tuned(data, tmp_path_factory):
    return carry_out(data, tmp_path_factory.mktemp("untouched") / "tuned")


class TestTrials:
    def test_as_many_for_each_method(self, tuned):
        names = {f"{method}-{number:03}.json" for method in BASES for number in range(1, 6)}
        assert {path.name for path in (tuned.folder / "trials").iterdir()} == names
        for method, trials in tuned.trials.items():
            assert [trial.number for trial in trials] == [1, 2, 3, 4, 5]
            assert {trial.method for trial in trials} == {method}
            assert [set(trial.values) for trial in trials] == [set(SPACES[method])] * 5
        assert not tuned.folder.with_name("tuned.unfinished").exists()

    def test_a_trial_is_what_its_settings_give_alone(self, data, tuned):
        """Whatever it shared its loop with."""
        shared = [trial for trials in tuned.trials.values() for trial in trials if len(trial.trained_with) > 1]
        assert {trial.method for trial in shared} == set(BASES)
        assert any({"plain", "paper"} == {name[:5] for name in trial.trained_with} for trial in shared)
        for trial in (shared[0], shared[-1]):
            alone = run(data, with_values(BASES[trial.method], trial.values))
            assert trial.valid["recall@5"]["per_seed"] == [one.overall["recall@5"] for one in alone.model.valid]
            assert trial.value == np.mean(trial.valid["recall@5"]["per_seed"])
            assert (trial.steps, trial.best_step) == (alone.model.fitted.steps, alone.model.fitted.best_steps)
            for seed in (0, 3):
                looks = [look for look in alone.model.fitted.history if seed in look.metrics]
                assert trial.curve[str(seed)] == [[look.step, look.metrics[seed]["recall@5"]] for look in looks]

    def test_trials_differ(self, tuned):
        for trials in tuned.trials.values():
            assert len({trial.value for trial in trials}) > 1

    def test_another_seed_tries_other_values(self, data, tuned, tmp_path):
        other = carry_out(data, tmp_path / "other", dataclasses.replace(STUDY, seed=1, trials=1))
        for method, (trial,) in other.trials.items():
            assert trial.values != tuned.trials[method][0].values

    def test_what_cannot_share_a_loop_has_its_own(self, tuned):
        """Learning rates differ between loops, never inside one."""
        trials = {trial.name: trial for trials in tuned.trials.values() for trial in trials}
        for trial in trials.values():
            rates = {trials[name].values["training.learning_rate"] for name in trial.trained_with}
            assert rates == {trial.values["training.learning_rate"]}
        assert len({trial.values["training.learning_rate"] for trial in trials.values()}) == 2

    def test_values_tried_before_are_not_trained_again(self, data, tmp_path):
        study = Study({"plain": BASES["plain"]}, {"plain": {"training.l2": Choices((1e-4, 1e-2))}}, trials=6, at_once=4)
        trials = carry_out(data, tmp_path / "few", study).trials["plain"]
        first: dict = {}
        for trial in trials:
            original = first.setdefault(trial.values["training.l2"], trial)
            assert (trial.value, trial.curve) == (original.value, original.curve)
            if trial is not original:
                assert (trial.repeats, trial.trained_with, trial.seconds) == (original.number, [], {})
        assert len(first) == 2
        summary = json.loads((tmp_path / "few" / "summary.json").read_text())["methods"]["plain"]
        assert (summary["trials"], summary["repeated"]) == (6, 4)


class TestResult:
    def test_the_best_trial_is_the_best(self, tuned):
        for method, best in tuned.best.items():
            values = [trial.value for trial in tuned.trials[method]]
            assert best == tuned.trials[method][int(np.argmax(values))]
            summary = json.loads((tuned.folder / "summary.json").read_text())["methods"][method]
            assert summary["best"] == best.valid["recall@5"]
            assert (summary["best_trial"], summary["values"]) == (best.name, best.values)
            assert (summary["median"], summary["lowest"]) == (np.median(values), min(values))
        values = [trial.value for trial in tuned.best.values()]
        assert values == sorted(values, reverse=True)

    @pytest.mark.parametrize("method", BASES)
    def test_its_settings_file_is_the_very_trial(self, tuned, method):
        settings = resolve(read_settings_file(tuned.folder / "best" / f"{method}.toml"))
        assert settings == with_values(BASES[method], tuned.best[method].values)

    def test_the_record_says_what_the_study_was(self, data, tuned):
        record = json.loads((tuned.folder / "study.json").read_text())
        assert record["study"]["data"] == record["data"]["fingerprint"]
        assert record["study"]["methods"]["paper"]["searched"]["positives.rank"] == {"values": [4, 8]}
        assert record["study"]["methods"]["plain"]["searched"]["training.l2"]["log"] is True
        assert set(record["study"]["versions"]) >= {"pspns", "torch", "optuna"}
        assert record["protocol"]["name"] == "strict"


class StopError(Exception):
    """As sudden as a kill: nobody catches it."""


def stop_at(step, nth, error):
    """A watch that ends the `nth` loop at a step."""
    loops = []

    def watch(now, last_step, evaluation):
        if now == 1:
            loops.append(now)
        if now == step and len(loops) == nth:
            raise error

    return watch


class TestGoingOn:
    @pytest.mark.parametrize(
        ("nth", "step", "error"),
        [(1, 5, KeyboardInterrupt), (2, 21, KeyboardInterrupt), (2, 25, StopError), (3, 25, StopError)],
    )
    def test_stopped_in_a_loop(self, data, tuned, tmp_path, nth, step, error):
        out = tmp_path / "tuned"
        with pytest.raises(error):
            carry_out(data, out, watch=stop_at(step, nth, error))
        assert len(list((out / "trials").iterdir())) < 10
        kept = list((tmp_path / "tuned.unfinished").rglob("step-*"))
        assert kept
        steps = []
        carry_out(data, out, resume=True, watch=lambda now, last, evaluation: steps.append(now))
        # The last checkpoint: of the interrupted step, or of the last evaluation.
        assert steps[0] == (step + 1 if error is KeyboardInterrupt else 21)
        assert files(out) == files(tuned.folder)
        assert [path.name for path in tmp_path.iterdir()] == ["tuned"]

    @pytest.mark.parametrize("n_written", [1, 3, 8, 10])
    def test_stopped_when_so_many_trials_are_written(self, data, tuned, tmp_path, n_written):
        """Between rounds, and between two trials of one loop."""
        out, told = tmp_path / "tuned", []

        def say(line):
            told.append(line)
            if sum(": recall@5" in line for line in told) == n_written:
                raise StopError

        with pytest.raises(StopError):
            carry_out(data, out, say=say)
        assert len(list((out / "trials").iterdir())) == n_written
        carry_out(data, out, resume=True)
        assert files(out) == files(tuned.folder)
        assert [path.name for path in tmp_path.iterdir()] == ["tuned"]

    def test_a_finished_study_is_told_again_without_training(self, data, tuned, monkeypatch):
        before = files(tuned.folder)
        monkeypatch.setattr(study_module, "run_together", None)
        again = carry_out(data, tuned.folder, resume=True)
        assert again == tuned
        assert files(tuned.folder) == before

    def test_where_nothing_was_begun_it_begins(self, data, tuned, tmp_path):
        (tmp_path / "tuned").mkdir()
        carry_out(data, tmp_path / "tuned", resume=True)
        assert files(tmp_path / "tuned") == files(tuned.folder)

    def test_threads_and_the_place_of_the_data_may_change(self, data, tuned):
        run_settings = dataclasses.replace(COMMON["run"], threads=1, baselines=False)
        bases = {name: dataclasses.replace(settings, run=run_settings) for name, settings in BASES.items()}
        before = files(tuned.folder)
        again = carry_out(data, tuned.folder, dataclasses.replace(STUDY, bases=bases), resume=True)
        assert again.trials == tuned.trials
        assert files(tuned.folder) == before

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"seed": 1}, "seed: then 0, now 1"),
            ({"at_once": 2}, "at_once: then 3, now 2"),
            ({"bases": {"plain": BASES["plain"]}, "spaces": SPACES}, r"methods\.paper.*now unset"),
            (
                {"spaces": {**SPACES, "plain": {"training.l2": Choices((0.1,))}}},
                r"methods\.plain\.searched\.training\.learning_rate\.values: then \[0.02, 0.05\], now unset",
            ),
            (
                {
                    "bases": {
                        name: dataclasses.replace(settings, training=dataclasses.replace(TRAINING, patience=3))
                        for name, settings in BASES.items()
                    }
                },
                r"methods\.plain\.settings\.training\.patience: then 2, now 3",
            ),
        ],
    )
    def test_another_study_is_refused_by_name(self, data, tuned, change, complaint):
        before = files(tuned.folder)
        with pytest.raises(SettingsError, match=complaint):
            carry_out(data, tuned.folder, dataclasses.replace(STUDY, **change), resume=True)
        assert files(tuned.folder) == before

    @pytest.mark.parametrize("trials", [4, 6])
    def test_a_cut_round_cannot_grow(self, data, tuned, trials):
        """Of 5 trials the last 2 were a round of 3, so a further one would not be that of a study of 6."""
        before = files(tuned.folder)
        complaint = f"a study of 5 trials, now {trials} are asked for.* whole rounds of 3: begin another .*repeat these"
        with pytest.raises(SettingsError, match=complaint):
            carry_out(data, tuned.folder, dataclasses.replace(STUDY, trials=trials), resume=True)
        assert files(tuned.folder) == before

    @pytest.mark.parametrize("stopped", [False, True])
    def test_more_trials_are_those_of_a_longer_study(self, data, tmp_path, stopped):
        """Four and four more, the first four finished or not, are the same files as eight."""
        four, eight = (dataclasses.replace(STUDY, trials=trials, at_once=4) for trials in (4, 8))
        whole = carry_out(data, tmp_path / "whole", eight)
        out = tmp_path / "grown"
        if stopped:
            with pytest.raises(KeyboardInterrupt):
                carry_out(data, out, four, watch=stop_at(25, 2, KeyboardInterrupt))
        else:
            carry_out(data, out, four)
        steps = []
        carry_out(data, out, eight, resume=True, watch=lambda now, *_: steps.append(now))
        assert steps[0] == (26 if stopped else 1)
        assert files(out) == files(whole.folder)
        assert (out / "study.json").read_text() == (whole.folder / "study.json").read_text()
        with pytest.raises(SettingsError, match="a study of 8 trials, now 4 are asked for; a study can only grow"):
            carry_out(data, out, four, resume=True)

    def test_other_data_are_refused(self, tuned):
        with pytest.raises(SettingsError, match="data: then"):
            carry_out(given_split(60, 40, 600, seed=1), tuned.folder, resume=True)

    def test_a_place_that_is_taken(self, data, tuned, tmp_path):
        before = files(tuned.folder)
        with pytest.raises(SettingsError, match="holds a study already; say --resume"):
            carry_out(data, tuned.folder)
        assert files(tuned.folder) == before
        (tmp_path / "mine").write_text("mine")
        for how in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(SettingsError, match="exists already and holds no study"):
                carry_out(data, tmp_path, **how)
        with pytest.raises(SettingsError, match="say one of them"):
            carry_out(data, tmp_path / "new", resume=True, overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["mine"]

    def test_overwriting(self, data, tuned, tmp_path):
        out = tmp_path / "tuned"
        with pytest.raises(KeyboardInterrupt):
            carry_out(data, out, dataclasses.replace(STUDY, seed=5), watch=stop_at(15, 2, KeyboardInterrupt))
        carry_out(data, out, overwrite=True)
        assert files(out) == files(tuned.folder)
        assert [path.name for path in tmp_path.iterdir()] == ["tuned"]

    def test_checkpoints_without_their_study_are_not_lost_unasked(self, data, tmp_path):
        out = tmp_path / "tuned"
        with pytest.raises(KeyboardInterrupt):
            carry_out(data, out, watch=stop_at(15, 1, KeyboardInterrupt))
        out.rename(tmp_path / "moved")
        with pytest.raises(SettingsError, match="holds checkpoints of a run that was stopped"):
            carry_out(data, out)
        assert list((tmp_path / "tuned.unfinished").rglob("step-*"))

    def test_overwriting_is_refused_before_anything_is_lost(self, data, tmp_path):
        out = tmp_path / "tuned"
        with pytest.raises(KeyboardInterrupt):
            carry_out(data, out, watch=stop_at(15, 1, KeyboardInterrupt))
        (out / "mine.txt").write_text("mine")
        with pytest.raises(SettingsError, match=r"it holds mine\.txt, which no study wrote"):
            carry_out(data, out, overwrite=True)
        assert list((tmp_path / "tuned.unfinished").rglob("step-*"))

    def test_one_process_at_a_time(self, data, tmp_path):
        with study_folder(tmp_path / "tuned"), pytest.raises(PspnsError, match="another run"):
            carry_out(data, tmp_path / "tuned")

    def test_a_changed_trial_is_noticed(self, data, tmp_path):
        carry_out(data, tmp_path / "tuned")
        path = tmp_path / "tuned" / "trials" / "plain-002.json"
        record = json.loads(path.read_text())
        record["values"]["training.l2"] = 0.5
        path.write_text(json.dumps(record))
        with pytest.raises(DataError, match=r"plain-002 has values .*its file was changed"):
            carry_out(data, tmp_path / "tuned", resume=True)
        path.write_text('{"method": "plain"}')
        with pytest.raises(DataError, match=r"plain-002\.json: is not the record of a trial"):
            carry_out(data, tmp_path / "tuned", resume=True)


def with_other_test(data: GivenSplit) -> GivenSplit:
    """The same train and validation pairs; the test pairs are those of the next user."""
    users, items = (data.interactions.users, data.interactions.items)
    taken = set(zip(users.tolist(), items.tolist(), strict=True))
    kept = data.parts != Part.TEST
    rows = {(u, i): part for u, i, part in zip(users[kept], items[kept], data.parts[kept], strict=True)}
    for user, item in zip(users[~kept], items[~kept], strict=True):
        shifted = ((int(user) + 1) % 60, int(item))
        if shifted not in taken:
            rows[shifted] = Part.TEST
    held_out = np.array([(u, i, part) for (u, i), part in rows.items() if part != Part.TRAIN])
    other = given_split(60, 40, 600, held_out=held_out)
    assert (other.parts == Part.TEST).sum() > 30
    return other


class TestBlindToTheTest:
    def test_another_test_part_changes_no_bit(self, data, tuned, tmp_path):
        carry_out(with_other_test(data), tmp_path / "tuned")
        assert files(tmp_path / "tuned") == files(tuned.folder)
        fingerprints = {
            json.loads((out / "study.json").read_text())["data"]["fingerprint"]
            for out in (tuned.folder, tmp_path / "tuned")
        }
        assert len(fingerprints) == 2

    def test_the_canary_can_sing(self, data, tmp_path):
        """Under `published` held-out pairs shape what is built, and the same comparison hears it."""
        bases = {"paper": dataclasses.replace(BASES["paper"], run=RunSettings(protocol="published", device="cpu"))}
        study = Study(bases, {"paper": SPACES["paper"]}, trials=1)
        outs = tmp_path / "one", tmp_path / "other"
        for out, given in zip(outs, (data, with_other_test(data)), strict=True):
            carry_out(given, out, study)
        assert files(outs[0]) != files(outs[1])
        assert "held-out labels" in json.loads((outs[0] / "summary.json").read_text())["protocol"]["warning"]

    def test_nothing_ranks_the_test(self, data, monkeypatch, tmp_path):
        runs = []
        together = study_module.run_together
        monkeypatch.setattr(
            study_module, "run_together", lambda *a, **k: runs.extend(together(*a, **k)) or runs[-len(a[1]) :]
        )
        carry_out(data, tmp_path / "tuned", dataclasses.replace(STUDY, trials=1))
        assert len(runs) == 2
        for finished in runs:
            assert finished.rankings.test is None
            assert (finished.model.test, finished.model.test_other_masks, finished.baselines) == ([], {}, [])
            assert finished.model.valid


DIVERGES = 1e39  # more than a float32 holds


class TestFailures:
    @pytest.fixture
    def study(self):
        spaces = {
            "plain": {"training.l2": Choices((1e-4, 1e-3, DIVERGES))},
            "paper": {"training.l2": Choices((1e-4, 1e-2))},
        }
        return Study(BASES, spaces, trials=4, at_once=4)

    def test_what_diverges_is_recorded_and_the_others_are_as_without_it(self, data, study, tmp_path):
        said = []
        tuned = carry_out(data, tmp_path / "tuned", study, say=said.append)
        trials = {trial.name: trial for trials in tuned.trials.values() for trial in trials}
        failed = {name for name, trial in trials.items() if trial.failed}
        assert failed == {name for name, trial in trials.items() if trial.values["training.l2"] == DIVERGES}
        assert 0 < len(failed) < 4
        for name, trial in trials.items():
            if name in failed:
                assert "training diverged" in trial.failed
                assert (trial.value, trial.valid, trial.curve) == (None, {}, {})
            elif trial.repeats is None:
                assert not failed & set(trial.trained_with)
                alone = run(data, with_values(BASES[trial.method], trial.values))
                assert trial.valid["recall@5"]["per_seed"] == [one.overall["recall@5"] for one in alone.model.valid]
        assert any("training diverged" in line for line in said)
        summary = json.loads((tuned.folder / "summary.json").read_text())["methods"]
        assert (summary["plain"]["failed"], summary["plain"]["trials"]) == (len(failed), 4)

    def test_stopped_among_the_halves_of_a_loop(self, data, study, tmp_path):
        carry_out(data, tmp_path / "whole", study)
        for n_written in range(1, 6):
            out, written = tmp_path / f"tuned{n_written}", []

            def say(line, n_written=n_written, written=written):
                written += [line] if line.startswith(("plain-0", "paper-0")) and "training.l2" in line else []
                if len(written) == n_written:
                    raise StopError

            with pytest.raises(StopError):
                carry_out(data, out, study, say=say)
            assert len(list((out / "trials").iterdir())) == n_written
            carry_out(data, out, study, resume=True)
            assert files(out) == files(tmp_path / "whole")

    def test_values_too_large_for_the_data(self, data, tmp_path):
        """Rank 60 is more than there are items: that trial fails, the others do not."""
        spaces = {**SPACES, "paper": {"positives.rank": Choices((4, 60))}}
        tuned = carry_out(data, tmp_path / "tuned", dataclasses.replace(STUDY, spaces=spaces, at_once=5))
        for trial in tuned.trials["paper"]:
            assert (trial.failed is not None) == (trial.values["positives.rank"] == 60)
        assert any("rank must be at most" in str(trial.failed) for trial in tuned.trials["paper"])
        assert not any(trial.failed for trial in tuned.trials["plain"])

    def test_values_that_do_not_go_together(self, data, tmp_path):
        bases = {"dns-m-n": Settings(**COMMON, negatives=BestOfManyNegatives())}
        spaces = {"dns-m-n": {"negatives.candidates": Choices((2, 8)), "negatives.best": Choices((1, 4))}}
        study = Study(bases, spaces, trials=8, at_once=8)
        tuned = carry_out(data, tmp_path / "tuned", study)
        for trial in tuned.trials["dns-m-n"]:
            own = trial.settings["negatives"]
            assert (own["candidates"], own["best"]) == tuple(trial.values.values())
            assert (trial.failed is not None) == (own["best"] > own["candidates"])
        assert any("best must be at most candidates" in str(trial.failed) for trial in tuned.trials["dns-m-n"])
        assert carry_out(data, tmp_path / "tuned", study, resume=True) == tuned

    def test_what_does_not_fit_the_memory(self, data, tmp_path):
        """A hundred thousand candidates for each row of a batch."""
        run_settings = dataclasses.replace(COMMON["run"], memory_gib=0.1)
        bases = {"dns": Settings(**{**COMMON, "run": run_settings}, negatives=DynamicNegatives())}
        spaces = {"dns": {"negatives.candidates": Choices((2, 100_000)), "training.l2": L2}}
        tuned = carry_out(data, tmp_path / "tuned", Study(bases, spaces, trials=6, at_once=6))
        for trial in tuned.trials["dns"]:
            assert (trial.failed is not None) == (trial.values["negatives.candidates"] == 100_000)
        reasons = [trial.failed for trial in tuned.trials["dns"] if trial.failed]
        assert 0 < len(reasons) < 6
        assert all("drawing negatives needs about" in reason for reason in reasons)

    def test_memory_that_ends_in_the_midst_of_training(self, data, tmp_path, monkeypatch):
        """With rank 8, or more than two in one loop: the others are trained, by twos."""
        together = study_module.run_together

        def run_out(data, members, **told):
            if len(members) > 2 or any(getattr(settings.positives, "rank", None) == 8 for settings in members):
                raise MemoryBudgetError("training on cpu ran out of memory")
            return together(data, members, **told)

        monkeypatch.setattr(study_module, "run_together", run_out)
        spaces = {"plain": {"training.l2": L2}, "paper": {"positives.rank": Choices((4, 8)), "training.l2": L2}}
        said = []
        tuned = carry_out(data, tmp_path / "tuned", Study(BASES, spaces, trials=4), say=said.append)
        assert any(line.startswith("8 in one loop") for line in said)
        failed = [trial for trial in tuned.trials["paper"] if trial.failed]
        assert 0 < len(failed) < 4
        assert {trial.failed for trial in failed} == {"training on cpu ran out of memory"}
        assert [trial.values["positives.rank"] == 8 for trial in tuned.trials["paper"]] == [
            trial.failed is not None for trial in tuned.trials["paper"]
        ]
        assert [len(trial.trained_with) for trial in tuned.trials["plain"]] == [2] * 4
        assert set(tuned.best) == {"plain", "paper"}

    def test_a_method_of_which_nothing_trains(self, data, tmp_path):
        spaces = {**SPACES, "paper": {"positives.rank": Choices((60, 70))}}
        tuned = carry_out(data, tmp_path / "tuned", dataclasses.replace(STUDY, spaces=spaces, trials=2))
        assert set(tuned.best) == {"plain"}
        assert [path.name for path in (tuned.folder / "best").iterdir()] == ["plain.toml"]
        assert json.loads((tuned.folder / "summary.json").read_text())["methods"]["paper"]["failed"] == 2

    def test_a_full_disk_is_no_failed_trial(self, data, tmp_path, monkeypatch):
        def fill(path, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pspns.tuning.study_folder.write_json", fill)
        with study_folder(tmp_path / "tuned") as folder:
            monkeypatch.setattr(folder, "begin", lambda identity, facts: (folder.path / "trials").mkdir(parents=True))
            with pytest.raises(PspnsError, match=r"cannot write .*-001\.json: No space left on device"):
                tune(data, STUDY, folder)
        assert list((tmp_path / "tuned" / "trials").iterdir()) == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"trials": 0}, "trials must be at least 1, got 0"),
            ({"at_once": 0}, "at_once must be at least 1, got 0"),
            ({"seed": -1}, "seed must be a whole number"),
            ({"bases": {}}, "no method to tune"),
            ({"bases": {"a": BASES["plain"], "b": BASES["plain"]}}, "methods a and b are the same"),
            (
                {"bases": {"a": Settings(run=RunSettings(protocol="best-on-test"))}},
                "best-on-test has no validation part",
            ),
            (
                {"bases": {"a": Settings(evaluation=EvaluationSettings(select_by="valid-loss"))}},
                "select_by = valid-loss cannot choose between trials: .*; tune by a metric such as recall@20",
            ),
            (
                {"bases": {"a": Settings(model=SvdRanking())}},
                "model svd has no training loop to tune; use lightgcn or mf",
            ),
            (
                {"bases": {"a": Settings(), "b": Settings(training=TrainingSettings(patience=20))}},
                "a and b do not compete on equal terms",
            ),
            (
                {"bases": {"a": Settings(), "b": Settings(run=RunSettings(seeds=(0, 1)))}},
                "a and b do not compete on equal terms",
            ),
        ],
    )
    def test_studies_that_are_none(self, change, complaint):
        with pytest.raises(SettingsError, match=complaint):
            dataclasses.replace(STUDY, **change)

    def test_data_without_a_validation_part(self, data, tmp_path):
        bases = {"plain": dataclasses.replace(BASES["plain"], split=NoSplit())}
        with pytest.raises(DataError, match="no validation part to choose on"):
            carry_out(data, tmp_path / "tuned", Study(bases, SPACES, trials=1))
        assert list(tmp_path.iterdir()) == []


def test_a_graph_model_and_its_merged_graph(data, tmp_path):
    """Where the positives are the graph, trials share a loop only if they share them."""
    common = {**COMMON, "model": LightGcn(embedding_size=4, layers=1, graph="merged")}
    bases = {"paper": Settings(**common, positives=PspPositives(rank=4))}
    spaces = {"paper": {"positives.rank": Choices((4, 8)), "training.l2": L2}}
    tuned = carry_out(data, tmp_path / "tuned", Study(bases, spaces, trials=4))
    trials = {trial.name: trial for trial in tuned.trials["paper"]}
    ranks = [{trials[name].values["positives.rank"] for name in trial.trained_with} for trial in trials.values()]
    assert all(len(found) == 1 for found in ranks)
    assert set.union(*ranks) == {4, 8}
    assert max(len(trial.trained_with) for trial in trials.values()) > 1


def test_the_engine_needs_neither_tables_nor_settings_checkers():
    script = """
        import sys
        BLOCKED = {"polars", "pyarrow", "pydantic", "typer", "rich", "matplotlib", "jinja2", "optuna"}

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in BLOCKED:
                    raise ImportError(f"{name} is not installed here")

        sys.meta_path.insert(0, Missing())
        import pspns.tuning.study
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
