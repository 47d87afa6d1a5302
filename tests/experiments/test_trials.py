"""Trials: as many for every method, chosen on validation, the test untouched; stopped and gone on with."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade_records import put
from toy import given_split

from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Part
from pspns.errors import DivergedError, SettingsError
from pspns.experiments import loops as loop_module
from pspns.experiments import published
from pspns.experiments import trials as trials_module
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_names
from pspns.experiments.records import Records
from pspns.experiments.reproduction._tuned import to_tune, tuned_table
from pspns.experiments.sections import Number, Section
from pspns.experiments.trials import (
    MOST_PATIENCE,
    MOST_STEPS,
    Trials,
    _beginning_of,
    _choice,
    draws,
    search_space,
    trial_terms,
    tuned_cell,
)
from pspns.search_space import Choices, Span
from pspns.tuning.methods import searched

PLAIN = Terms(
    max_steps=8,
    patience=2,
    seeds=2,
    device="cpu",
    trials=3,
    changes=(("model.embedding_size", 4), ("training.evaluate_every", 4)),
)
DATA = "toy"


@pytest.fixture(scope="module")
def data() -> GivenSplit:
    return given_split(150, 120, 1500)


def tuned_of(*cells: Cell) -> Experiment:
    return Experiment("", "", lambda records, names: Section("", "", ()), tuned=lambda data: cells)


def carry(experiment: Experiment, folder: Path, data: Any, terms: Terms = PLAIN, **how: Any) -> Records:
    records = Records(folder)
    carry_out({DATA: [experiment]}, records, terms, lambda name: data, **how)
    return records


def trials_of(records: Records, cell: Cell) -> list[dict[str, Any]]:
    record = Records(records.folder).find(Trials(cell).name)  # as it lies on the disk
    assert record is not None
    found: list[dict[str, Any]] = record["trials"]
    return found


class TestWhatIsTried:
    def test_every_method_has_as_many_different_trials_and_its_defaults_come_first(self) -> None:
        for method in method_names():
            for n_trials in (1, 5):
                cell = Cell("ml-1m", "lightgcn", method)
                terms = Terms(trials=n_trials)
                tried = Trials(cell).cells(terms)
                assert tried[0] == cell
                assert len({repr(one.settings(terms, "")) for one in tried}) == len(tried) == n_trials
                assert len({one.name for one in tried}) == n_trials
                defaults = cell.settings(terms, "").as_dict()
                for key, value in (change for one in tried for change in one.changes):
                    section, _, entry = key.partition(".")
                    assert defaults[section][entry] != value, "a cell is named after what it has changed"

    def test_all_methods_meet_the_same_learning_rates_and_weights(self) -> None:
        terms = Terms()

        def met(method: str) -> list[tuple[float, float]]:
            found = [cell.settings(terms, "") for cell in Trials(Cell("ml-1m", "mf", method)).cells(terms)]
            return [(one.training.learning_rate, one.training.l2) for one in found[1:]]

        assert len(set(met("uniform"))) == 4
        for method in ("dns", "t-ce", "psp-ns", "recommended"):
            assert met(method) == met("uniform")

    def test_strict_searches_what_tune_searches(self) -> None:
        cell = Cell("ml-1m", "mf", "psp-ns")
        settings = cell.settings(Terms(), "")
        assert search_space(cell, settings) == searched(settings)
        assert {"training.l2", "positives.rank", "weighting.sensitivity"} <= search_space(cell, settings).keys()

    @pytest.mark.parametrize(("name", "paper"), [("ml-1m-by-user", "ml-1m"), ("yelp2018-part", "yelp")])
    def test_published_searches_the_grids_of_the_paper_and_nothing_else(self, name: str, paper: str) -> None:
        terms = Terms(trials=9)
        tried = Trials(Cell(name, "lightgcn", "psp-ns", "published")).cells(terms)
        for cell in tried[1:]:
            for key, value in cell.changes:
                grid = {
                    "positives.rank": published.data_sets()[paper].ranks,
                    "positives.copies": published.grids()["copies"],
                    "weighting.sensitivity": published.grids()["sensitivity"],
                }[key]
                assert value in grid
        assert len(tried) == 9

    def test_data_that_the_paper_does_not_have_are_tried_at_the_ranks_of_the_builder(self) -> None:
        cell = Cell("planted-clustered", "mf", "psp-ns", "published")
        settings = cell.settings(Terms(), "")
        assert search_space(cell, settings)["positives.rank"] == settings.positives.search["rank"]

    def test_draws_are_spread_over_the_whole_of_each_setting(self) -> None:
        space = {"a.b": Choices((1, 2, 3, 4)), "a.c": Span(low=1e-4, high=1.0, log=True), "a.d": Span(low=0, high=8)}
        found = list(itertools.islice(draws(space, 4), 8))
        for block in (found[:4], found[4:]):
            assert sorted(one["a.b"] for one in block) == [1, 2, 3, 4]
            # One in each quarter, but for rounding: of the exponents −4 to 0, and of 0 to 8.
            for places in ([np.log10(one["a.c"]) + 4 for one in block], [one["a.d"] / 2 for one in block]):
                assert np.abs(np.sort(places) - [0.5, 1.5, 2.5, 3.5]).max() < 0.53
        assert found[:4] != found[4:]
        assert list(itertools.islice(draws(space, 4), 8)) == found

    def test_values_that_do_not_go_together_are_not_tried(self) -> None:
        terms = Terms(trials=12)
        tried = Trials(Cell("ml-1m", "mf", "dns-m-n")).cells(terms)
        assert len(tried) == 12
        for cell in tried:
            settings = cell.settings(terms, "")
            assert settings.negatives.best <= settings.negatives.candidates

    def test_a_trial_has_one_seed_and_is_short(self) -> None:
        short = trial_terms(Terms(device="cpu", precision="mixed"))
        assert (short.max_steps, short.patience, short.seeds) == (MOST_STEPS, MOST_PATIENCE, 1)
        assert (short.device, short.precision) == ("cpu", "mixed")
        assert trial_terms(PLAIN).max_steps == PLAIN.max_steps


class TestTheBeginningOfACell:
    """A training to the end begins as the trial of the same settings does."""

    LONGER = dataclasses.replace(PLAIN, max_steps=24, patience=9)

    @pytest.fixture
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trials_module, "MOST_STEPS", 8)
        monkeypatch.setattr(trials_module, "MOST_PATIENCE", 2)

    def experiment(self, *cells: Cell) -> Experiment:
        return dataclasses.replace(tuned_of(*cells), cells=lambda data: cells)

    @pytest.mark.parametrize("select_by", ["recall@20", "valid-loss"])
    @pytest.mark.parametrize("denoiser", ["none", "bod"])
    def test_is_the_trial(
        self, select_by: str, denoiser: str, short: None, data: GivenSplit, tmp_path: Path, monkeypatch: Any
    ) -> None:
        changes = (*self.LONGER.changes, ("evaluation.select_by", select_by), ("denoiser.name", denoiser))
        terms = dataclasses.replace(self.LONGER, changes=changes)
        cell = Cell(DATA, "mf", "uniform")
        trained = trials_of(carry(tuned_of(cell), tmp_path / "trained", data, terms), cell)
        tried = []
        monkeypatch.setattr(trials_module, "trained", spying(loop_module.trained, tried))
        taken = trials_of(carry(self.experiment(cell), tmp_path / "taken", data, terms), cell)
        assert cell.name not in tried
        assert len(tried) == len(taken) - 1 == 2
        assert taken[0].pop("beginning_of") == cell.name
        assert trained[0]["steps"] == [8]
        for key in ("name", "changes", "value", "seeds", "steps", "best_step", "settings", "failed"):
            assert as_json(taken[0][key]) == as_json(trained[0][key]), key
        assert [one["value"] for one in taken[1:]] == [one["value"] for one in trained[1:]]

    def test_the_next_time_it_is_what_was_asked_for(self, short: None, data: GivenSplit, tmp_path: Path) -> None:
        cell = Cell(DATA, "mf", "uniform")
        carry(self.experiment(cell), tmp_path, data, self.LONGER)
        said: list[str] = []
        carry(self.experiment(cell), tmp_path, data, self.LONGER, say=said.append)
        assert len(said) == 1
        assert said[0].endswith("records, 0 of them to be made")

    def test_what_a_stopped_loop_of_trials_kept_goes_once_the_choice_is_made(
        self, short: None, data: GivenSplit, tmp_path: Path
    ) -> None:
        cell = Cell(DATA, "mf", "uniform")

        def stop(step: int, last_step: int, evaluation: object) -> None:
            if step == 5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            carry(tuned_of(cell), tmp_path, data, self.LONGER, watch=stop, unfinished=tmp_path / "u")
        assert [path.name.startswith("trying-") for path in (tmp_path / "u").iterdir()] == [True]
        # With the cell there its trial is known, so that the others train in another company.
        carry(self.experiment(cell), tmp_path, data, self.LONGER, unfinished=tmp_path / "u")
        assert not (tmp_path / "u").exists()

    @pytest.mark.parametrize(
        ("curve", "expected"),
        [
            ([[4, 0.1], [8, 0.3], [12, 0.9]], (0.3, 8, 8)),  # not beyond the trial's limit
            ([[2, 0.3], [4, 0.2], [6, 0.1], [8, 0.9]], (0.3, 2, 6)),  # nor beyond its patience
            ([[2, 0.3], [4, 0.2], [6, 0.1]], (0.3, 2, 6)),
            ([[3, 0.3], [6, 0.2], [9, 0.1]], None),  # the trial would look after 8 steps
            ([[3, 0.1], [6, 0.3], [8, 0.2]], (0.3, 6, 8)),  # as this record's training did
            ([[4, 0.3], [7, 0.2]], None),  # ended earlier than the trial would
            ([[2, 0.3], [4, 0.2], [5, 0.1]], None),  # and looked where the trial would not
            ([[4, 0.3]], None),
            ([[9, 0.3]], None),  # no look within the trial
        ],
    )
    def test_is_cut_where_the_trial_would_end(
        self, curve: list[list[float]], expected: tuple[float, int, int] | None, short: None
    ) -> None:
        cell = Cell(DATA, "mf", "uniform")
        settings = cell.settings(trial_terms(PLAIN), DATA)
        record = {"cell": {"trained_with": []}, "curve_recall@20": {"0": curve}, "settings": settings.as_dict()}
        found = _beginning_of(record, cell, settings)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert (found["value"], *found["best_step"], *found["steps"]) == expected

    def test_a_teacher_taught_for_longer_teaches_something_else(self, short: None) -> None:
        cell = Cell(DATA, "mf", "deca").but(changes=(("denoiser.name", "deca-p"),))
        settings = cell.settings(trial_terms(PLAIN), DATA)
        record = {"cell": {"trained_with": []}, "curve_recall@20": {"0": [[8, 0.1]]}, "settings": settings.as_dict()}
        assert _beginning_of(record, cell, settings) is None

    def test_of_other_settings_or_seeds_is_nobodys(self, short: None) -> None:
        cell = Cell(DATA, "mf", "uniform")
        settings = cell.settings(trial_terms(PLAIN), DATA)
        same = {"cell": {"trained_with": []}, "curve_recall@20": {"0": [[8, 0.1]]}, "settings": settings.as_dict()}
        assert _beginning_of(same, cell, settings)
        assert _beginning_of({**same, "curve_recall@20": {"1": [[8, 0.1]]}}, cell, settings) is None
        assert (
            _beginning_of({key: same[key] for key in ("cell", "settings")}, cell, settings) is None
        )  # of another metric
        other = cell.but(changes=(("training.l2", 0.5),)).settings(trial_terms(PLAIN), DATA)
        assert _beginning_of({**same, "settings": other.as_dict()}, cell, settings) is None
        fixed = cell.but(changes=(("training.steps", 8),)).settings(trial_terms(PLAIN), DATA)
        assert _beginning_of({**same, "settings": fixed.as_dict()}, cell, fixed) is None


def spying(trained: Any, names: list[str]) -> Any:
    @contextlib.contextmanager
    def spied(cells: Any, *given: Any, **more: Any) -> Any:
        names.extend(cell.name for cell in cells)
        with trained(cells, *given, **more) as runs:
            yield runs

    return spied


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


class TestTheChoice:
    def test_losses_are_better_low(self) -> None:
        trials = [{"failed": None, "value": value, "changes": {"a": value}} for value in (0.3, 0.1, 0.1, 0.2)]
        assert _choice(trials, "valid-loss") == {"a": 0.1}
        assert _choice(trials, "recall@20") == {"a": 0.3}
        assert _choice([{"failed": "why", "changes": {}}], "recall@20") is None

    def test_trials_of_other_limits_are_held_anew(self, data: GivenSplit, tmp_path: Path) -> None:
        cell = Cell(DATA, "mf", "uniform")
        records = carry(tuned_of(cell), tmp_path, data)
        record = records.find(Trials(cell).name)
        assert record is not None
        del record["chosen"]
        record["trials"][0]["settings"]["training"]["max_steps"] = 4
        record["trials"][0]["value"] = 9.0
        records.write(Trials(cell).name, record)
        assert max(one["value"] for one in trials_of(carry(tuned_of(cell), tmp_path, data, keep=True), cell)) < 1

    def test_the_best_on_validation_is_chosen_and_trained_with_all_seeds(
        self, data: GivenSplit, tmp_path: Path
    ) -> None:
        cells = Cell(DATA, "mf", "uniform"), Cell(DATA, "mf", "dns")
        records = carry(tuned_of(*cells), tmp_path, data)
        for cell in cells:
            trials = trials_of(records, cell)
            assert len(trials) == 3
            values = [trial["valid"]["recall@20"]["mean"] for trial in trials]
            assert [trial["value"] for trial in trials] == values
            best = trials[int(np.argmax(values))]
            tuned = tuned_cell(records, cell)
            assert tuned is not None
            assert dict(tuned.changes) == best["changes"]
            found = records.find(tuned.name)
            assert found is not None
            assert found["seeds"] == [0, 1]
            assert {trial["seeds"][0] for trial in trials} == {0}
            # The same settings and seed come out the same, whatever else is in the loop.
            assert found["valid"]["recall@20"]["per_seed"][0] == best["value"]

    def test_the_test_is_not_looked_at(self, data: GivenSplit, tmp_path: Path) -> None:
        """Test labels of other items: every trial comes out the same, and nothing of the test is in the record."""
        cell = Cell(DATA, "mf", "uniform")
        poisoned = exchange_test_items(data)
        found = [carry(tuned_of(cell), tmp_path / name, one) for name, one in (("a", data), ("b", poisoned))]
        records = [one.find(Trials(cell).name) or {} for one in found]
        assert records[0]["data"]["fingerprint"] != records[1]["data"]["fingerprint"]
        without_seconds = [[{**trial, "seconds": None} for trial in record["trials"]] for record in records]
        assert without_seconds[0] == without_seconds[1]
        assert records[0]["chosen"] == records[1]["chosen"]
        for trial in records[0]["trials"]:
            assert "test" not in json.dumps({**trial, "settings": None})
        # The data are others indeed: what is trained with the choice says so.
        tuned = [tuned_cell(one, cell) for one in found]
        assert tuned[0] == tuned[1] is not None
        tests = [(one.find(tuned[0].name) or {})["test"]["recall@20"] for one in found]  # type: ignore[union-attr]
        assert tests[0] != tests[1]

    def test_trials_of_several_methods_share_a_loop(self, tmp_path: Path) -> None:
        data = given_split(220, 210, 2500)  # so large that no rank fails
        cells = Cell(DATA, "mf", "uniform"), Cell(DATA, "mf", "psp-ns"), Cell(DATA, "mf", "psp-ns", "published")
        records = carry(tuned_of(*cells), tmp_path, data)
        (first, *_), *others = (trials_of(records, cell) for cell in cells)
        assert set(first["trained_with"]) >= {cell.name for cell in cells}
        assert all(len(one) == 3 for one in others)

    def test_a_trial_that_cannot_train_fails_alone(self, data: GivenSplit, tmp_path: Path) -> None:
        """Rank 200 of a matrix with 120 columns."""
        cell = Cell(DATA, "mf", "psp-ns")
        terms = dataclasses.replace(PLAIN, trials=5)
        records = carry(tuned_of(cell, Cell(DATA, "mf", "uniform")), tmp_path, data, terms)
        trials = trials_of(records, cell)
        failed = [trial for trial in trials if trial["failed"]]
        assert len(trials) == 5
        assert failed
        assert all(trial["changes"]["positives.rank"] == 200 for trial in failed)
        assert all("rank" in trial["failed"] for trial in failed)
        assert all(trial["failed"] is None for trial in trials_of(records, Cell(DATA, "mf", "uniform")))
        assert tuned_cell(records, cell) is not None

    def test_of_trials_that_all_fail_nothing_is_chosen(
        self, data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def diverge(*arguments: Any, **options: Any) -> None:
            raise DivergedError("numbers that are not finite")

        monkeypatch.setattr(loop_module, "run_together", diverge)
        cell = Cell(DATA, "mf", "uniform")
        records = carry(tuned_of(cell), tmp_path, data)
        assert (records.find(Trials(cell).name) or {})["chosen"] is None
        assert tuned_cell(records, cell) is None
        carry(tuned_of(cell), tmp_path, None)  # and that is the end of it

    def test_the_table_shows_the_choice_and_names_what_is_missing(self, data: GivenSplit, tmp_path: Path) -> None:
        methods = ("uniform", "psp-ns")
        experiment = tuned_of(*to_tune(DATA, "mf", methods))
        records = carry(experiment, tmp_path, data)
        table = tuned_table(records.since(), "tuned", DATA, "mf", methods)
        (_, plain), (heads, psp) = table.rows
        assert heads == ("PSP-NS",)
        tuned = tuned_cell(records, Cell(DATA, "mf", "psp-ns"))
        assert tuned is not None
        shown = psp[table.columns.index("ours, strict, tuned")]
        assert isinstance(shown, Number)
        assert shown.record == tuned.name
        assert str(psp[table.columns.index("trials")]) == "3"
        assert psp[-1] is not None
        assert plain[-1] is None
        missing = records.since()
        empty = tuned_table(missing, "tuned", "ml-1m", "mf", methods)
        assert all(cell is None for _, cells in empty.rows for cell in cells)
        assert set(missing.missing) == {Trials(cell).name for cell in to_tune("ml-1m", "mf", methods)}


class TestGoingOn:
    def test_trials_that_are_there_are_not_trained_again(
        self, data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cells = Cell(DATA, "mf", "uniform"), Cell(DATA, "mf", "dns")
        real, stop_at, calls = loop_module.run_together, [0], []

        def stop_or_train(*arguments: Any, **options: Any) -> Any:
            calls.append(options["judge_test"])
            if len(calls) == stop_at[0]:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        monkeypatch.setattr(loop_module, "run_together", stop_or_train)
        whole = carry(tuned_of(*cells), tmp_path / "whole", data)
        n_trials, n_all = calls.count(False), len(calls)
        assert n_trials > 2
        calls.clear()
        stop_at[0] = n_trials
        with pytest.raises(KeyboardInterrupt):
            carry(tuned_of(*cells), tmp_path / "stopped", data)
        assert tuned_cell(Records(tmp_path / "stopped"), cells[1]) is None
        calls.clear()
        stop_at[0] = 0
        records = carry(tuned_of(*cells), tmp_path / "stopped", data)
        assert len(calls) == n_all - n_trials + 1
        for cell in cells:
            for one, other in zip(trials_of(records, cell), trials_of(whole, cell), strict=True):
                assert {**one, "seconds": None} == {**other, "seconds": None}
            assert tuned_cell(records, cell) == tuned_cell(whole, cell) is not None
        calls.clear()
        carry(tuned_of(*cells), tmp_path / "stopped", data)
        carry(tuned_of(*cells), tmp_path / "stopped", None, keep=True)
        assert not calls

    def test_fewer_trials_than_were_begun_may_all_be_there(self, data: GivenSplit, tmp_path: Path) -> None:
        cell = Cell(DATA, "mf", "uniform")
        records = carry(tuned_of(cell), tmp_path, data)
        record = json.loads((tmp_path / f"{Trials(cell).name}.json").read_text())
        del record["chosen"]  # stopped after the first of three
        records.write(Trials(cell).name, record | {"trials": record["trials"][:1]})
        said: list[str] = []
        carry(tuned_of(cell), tmp_path, data, dataclasses.replace(PLAIN, trials=1), say=said.append)
        assert not [line for line in said if "in one loop" in line]
        assert json.loads((tmp_path / f"{Trials(cell).name}.json").read_text())["chosen"] == {}

    @pytest.mark.parametrize("change", [{"trials": 2}, {"trials": 4}, {"max_steps": 4}])
    def test_a_choice_between_other_trials_is_refused_unless_any_will_do(
        self, data: GivenSplit, tmp_path: Path, change: dict[str, int]
    ) -> None:
        experiment = tuned_of(Cell(DATA, "mf", "uniform"))
        carry(experiment, tmp_path, data)
        other = dataclasses.replace(PLAIN, **change)  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match="--keep"):
            carry(experiment, tmp_path, None, other)
        carry(experiment, tmp_path, None, other, keep=True)


def exchange_test_items(data: GivenSplit) -> GivenSplit:
    """The same users and items, train and validation, with other items in the test."""
    users, items = data.interactions.users, data.interactions.items.copy()
    taken = set(zip(users.tolist(), items.tolist(), strict=True))
    for place in np.flatnonzero(data.parts == Part.TEST):
        user = int(users[place])
        item = next(i for i in range(len(data.interactions.item_ids)) if (user, i) not in taken)
        taken.add((user, item))
        items[place] = item
    order = np.lexsort((items, users))
    return GivenSplit(Interactions.from_arrays(users, items), data.parts[order], "toy")


def test_rows_that_are_not_compared_say_why(tmp_path: Path) -> None:
    records, hits = Records(tmp_path), np.ones(20, int)
    for method, how in {"uniform": {"hits": hits}, "dns": {"hits": hits, "limit": 50}, "mixgcf": {}}.items():
        put(records, method, 0.5, **how)
        records.write(f"trials-lightgcn-ml-1m-{method}-strict", {"chosen": {}, "trials": []})
    table = tuned_table(records, "", "ml-1m", "lightgcn", ("uniform", "dns", "mixgcf", "ahns"))
    told = {heads[0]: cells[3] for heads, cells in table.rows}
    assert told == {"RNS": None, "DNS": "lower limit", "MixGCF": "no users", "AHNS": None}
