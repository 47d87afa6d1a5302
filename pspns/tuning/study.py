"""The rounds of a study: every method asks for a few trials, those that can train in one loop, all are recorded."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Split
from pspns.errors import DataError, DivergedError, PspnsError, SettingsError
from pspns.evaluation.protocol import Protocol, find_protocol
from pspns.memory import MemoryBudgetError
from pspns.record import describe_data, describe_machine, describe_versions
from pspns.resume import WITHOUT_EFFECT, has_checkpoint, make_way
from pspns.rng import host_stream
from pspns.run import Run, Say, check_company, choose_device, make_split, run_together
from pspns.search_space import Space
from pspns.settings import Settings
from pspns.training.loop import Watch
from pspns.tuning.asking import ask, find_optuna
from pspns.tuning.methods import BUDGET, check_trains, with_values
from pspns.tuning.study_folder import StudyFolder
from pspns.tuning.summary import Tuned
from pspns.tuning.trials import Plan, Trial, failed_trial, finished_trial, repeated_trial, trial_name, values_in_words


@dataclass(frozen=True)
class Study:
    """What is compared, what of it is searched, and how much is spent on each method."""

    bases: dict[str, Settings]  # method → the settings of which its trials change some
    spaces: dict[str, Space]  # method → what is searched
    trials: int  # of each method
    at_once: int = 4  # of each method, before the search learns from them
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("trials", "at_once"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.seed < 2**63:
            raise SettingsError(f"seed must be a whole number from 0 to 2⁶³ − 1, got {self.seed}")
        if not self.bases:
            raise SettingsError("there is no method to tune; name one or several")
        first_name, first = next(iter(self.bases.items()))
        for name, settings in self.bases.items():
            _check_trainable(settings)
            if _terms(settings) != _terms(first):
                raise SettingsError(
                    f"methods {first_name} and {name} do not compete on equal terms: their data, evaluation and limits "
                    f"must be the same, got {_terms(first)} and {_terms(settings)}"
                )
            twins = [other for other, its in self.bases.items() if its == settings and other != name]
            if twins:
                raise SettingsError(f"methods {name} and {twins[0]} are the same; leave one out")

    @property
    def common(self) -> Settings:
        """The settings of any method, for what all of them share."""
        return next(iter(self.bases.values()))

    @property
    def protocol(self) -> Protocol:
        return find_protocol(self.common.run.protocol)

    @property
    def select_by(self) -> str:
        return self.common.evaluation.select_by

    def split(self, data: Interactions | GivenSplit) -> Split:
        split = make_split(data, self.common, self.protocol)
        if len(split.valid) == 0:
            raise DataError(f"there is no validation part to choose on ({split.made_by}); take another split")
        return split

    def identity(self, split: Split) -> dict[str, Any]:
        """All that decides what is tried and what comes of it."""
        return {
            "methods": {
                name: {
                    "settings": {
                        section: {key: v for key, v in entries.items() if key not in WITHOUT_EFFECT.get(section, ())}
                        for section, entries in settings.as_dict().items()
                    },
                    "searched": {key: dataclasses.asdict(values) for key, values in self.spaces[name].items()},
                }
                for name, settings in self.bases.items()
            },
            "trials": self.trials,
            "at_once": self.at_once,
            "seed": self.seed,
            "data": split.fingerprint(),
            "device": choose_device(self.common.run.device).type,
            "versions": {**describe_versions(), "optuna": find_optuna().__version__},
        }

    def facts(self, split: Split) -> dict[str, Any]:
        """What else a reader of the record may want to know."""
        return {
            "select_by": self.select_by,
            "protocol": {"name": self.protocol.name, "warning": self.protocol.warning},
            "data": describe_data(split, self.common.data.source),
            "machine": describe_machine(choose_device(self.common.run.device)),
        }


def tune(
    data: Interactions | GivenSplit,
    study: Study,
    folder: StudyFolder,
    *,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> Tuned:
    """Try as many settings of each method, judged on validation alone; goes on where the folder's study stopped."""
    split = study.split(data)
    folder.begin(study.identity(split), study.facts(split))
    trials = _Rounds(data, study, folder, watch, say).run()
    tuned = Tuned(folder.path, study.protocol, study.select_by, trials)
    folder.write_result(tuned.summary(), tuned.settings_files())
    return tuned


class _Rounds:
    """A study on its way: all that it knows is in its trials, and they are in its folder."""

    def __init__(self, data: Interactions | GivenSplit, study: Study, folder: StudyFolder, watch: Watch, say: Say):
        self._data, self._study, self._folder = data, study, folder
        self._watch, self._say = watch, _each_once(say)
        self._done = folder.read_trials()
        self._first_with: dict[tuple[str, str], int] = {}  # method and values → the number of the first such trial

    def run(self) -> dict[str, list[Trial]]:
        study = self._study
        for first in range(1, study.trials + 1, study.at_once):
            numbers = range(first, min(first + study.at_once, study.trials + 1))
            plans = [plan for method in study.bases for plan in self._plans(method, numbers)]
            originals = [plan for plan in plans if self._original(plan) == plan.number]
            n_left = sum(plan.name not in self._done for plan in originals)
            self._say(f"trials {numbers[0]} to {numbers[-1]} of {study.trials}: {n_left} to train")
            for loop in _loops([plan for plan in originals if self._goes_together(plan)]):
                self._train(loop)
            for plan in plans:
                if plan.name not in self._done:
                    self._write(repeated_trial(plan, self._done[trial_name(plan.method, self._original(plan))]))
        return {
            method: [self._done[trial_name(method, number)] for number in range(1, study.trials + 1)]
            for method in study.bases
        }

    def _plans(self, method: str, numbers: range) -> list[Plan]:
        """What the search asks for next, given the trials before."""
        before = [self._done[trial_name(method, number)] for number in range(1, numbers[0])]
        rng = host_stream(self._study.seed, f"trials of {method} after {len(before)}")
        finished = [(trial.values, trial.value) for trial in before]
        asked = ask(self._study.spaces[method], finished, len(numbers), int(rng.integers(2**32)))
        plans = [
            Plan(method, number, values, self._study.bases[method])
            for number, values in zip(numbers, asked, strict=True)
        ]
        for plan in plans:
            if plan.name in self._done and self._done[plan.name].values != plan.values:
                raise DataError(
                    f"{self._folder.path}: trial {plan.name} has values {self._done[plan.name].values}, where this "
                    f"study tries {plan.values}; its file was changed, so begin anew with --overwrite"
                )
        return plans

    def _original(self, plan: Plan) -> int:
        """The number of the first trial with these values."""
        return self._first_with.setdefault((plan.method, json.dumps(plan.values)), plan.number)

    def _goes_together(self, plan: Plan) -> bool:
        """Whether the values make settings; a trial of which they do not has failed."""
        try:
            with_values(plan.base, plan.values)
        except SettingsError as error:
            if plan.name not in self._done:
                self._write(failed_trial(plan, str(error)))
            return False
        return True

    def _train(self, loop: Sequence[Plan]) -> None:
        """Train and record those in one loop; where one of them spoils it, train halves of it."""
        names = [plan.name for plan in loop]
        recorded = [self._done[name] for name in names if name in self._done]
        checkpoints = self._folder.checkpoints(f"{names[0]}.{len(names)}")
        if any(trial.trained_with != names for trial in recorded):  # before this study was stopped
            self._train_halves(loop)
        elif len(recorded) < len(loop):
            self._say(f"{len(loop)} in one loop: {', '.join(names)}" if len(loop) > 1 else f"{names[0]}, alone")
            resume = has_checkpoint(checkpoints)
            try:
                runs = run_together(
                    self._data,
                    [plan.settings for plan in loop],
                    judge_test=False,
                    checkpoints=checkpoints,
                    resume=resume,
                    watch=self._watch,
                    say=self._say,
                )
            except PspnsError as error:
                if not _is_due_to_values(error, resume=resume):
                    raise
                self._say(f"{', '.join(names)}: {error}")
                self._train_halves(loop, str(error))
            else:
                self._record(loop, runs)
        make_way(checkpoints, overwrite=True)

    def _train_halves(self, loop: Sequence[Plan], error: str = "") -> None:
        if len(loop) == 1:
            self._write(failed_trial(loop[0], error))
            return
        middle = len(loop) // 2
        self._train(loop[:middle])
        self._train(loop[middle:])

    def _record(self, loop: Sequence[Plan], runs: Sequence[Run]) -> None:
        for plan, run in zip(loop, runs, strict=True):
            if plan.name not in self._done:
                self._write(finished_trial(plan, run, [other.name for other in loop]))

    def _write(self, trial: Trial) -> None:
        self._done[trial.name] = self._folder.write_trial(trial)
        shown = "failed" if trial.value is None else f"{self._study.select_by} {100 * trial.value:.2f}"
        again = f", as trial {trial.repeats}" if trial.repeats else ""
        self._say(f"{trial.name}: {shown}{again} ({values_in_words(trial.values)})")


def _loops(plans: Sequence[Plan]) -> list[list[Plan]]:
    """Those that may train together, together."""
    loops: list[list[Plan]] = []
    for plan in plans:
        for loop in loops:
            if _may_share(loop[0].settings, plan.settings):
                loop.append(plan)
                break
        else:
            loops.append([plan])
    return loops


def _may_share(one: Settings, other: Settings) -> bool:
    try:
        check_company([one, other])
    except SettingsError:
        return False
    return True


def _is_due_to_values(error: PspnsError, *, resume: bool) -> bool:
    """Whether other values would have trained: they diverged, the data are too small or the memory is.

    What goes on from a checkpoint had trained before, so a complaint about settings is about something else then.
    """
    if isinstance(error, SettingsError):
        return not resume
    return isinstance(error, DivergedError | MemoryBudgetError)


def _check_trainable(settings: Settings) -> None:
    protocol = find_protocol(settings.run.protocol)
    if not protocol.needs_validation:
        raise SettingsError(
            f"protocol {protocol.name} has no validation part, and tuning on the test would be no tuning; "
            "use strict or published"
        )
    if settings.evaluation.selects_by_loss:
        raise SettingsError(
            f"[evaluation] select_by = {settings.evaluation.select_by} cannot choose between trials: their scores "
            "differ in spread, on which a loss depends; tune by a metric such as recall@20"
        )
    check_trains(settings.model)


def _terms(settings: Settings) -> dict[str, Any]:
    """What must be the same for all: the data, how they are judged, and how long a trial may train."""
    sections = settings.as_dict()
    budget = {name: sections["training"][name.partition(".")[2]] for name in BUDGET}
    return {**{name: sections.get(name) for name in ("data", "split", "evaluation", "run")}, **budget}


def _each_once(say: Say) -> Say:
    """Every loop tells of the same split and mostly the same positives."""
    said: set[str] = set()

    def say_if_new(line: str) -> None:
        if line not in said:
            said.add(line)
            say(line)

    return say_if_new
