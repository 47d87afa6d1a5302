"""Trials: what was tried and how good it was, one file each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pspns.record import summarise
from pspns.run import Run
from pspns.settings import Settings
from pspns.tuning.methods import by_section, file_stem, with_values


@dataclass(frozen=True)
class Plan:
    """A trial that is still to be trained."""

    method: str
    number: int  # among those of its method, counted from 1
    values: dict[str, Any]  # section.key → value
    base: Settings

    @property
    def name(self) -> str:
        return trial_name(self.method, self.number)

    @property
    def settings(self) -> Settings:
        return with_values(self.base, self.values)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """All that is known of a trial once it is over; the content of its file."""

    method: str
    number: int
    values: dict[str, Any]
    settings: dict[str, dict[str, Any]]  # all of them, as a settings file has them
    trained_with: list[str]  # the trials in one loop, itself among them; empty where nothing was trained
    repeats: int | None = None  # the number of the earlier trial whose values these are
    failed: str | None = None  # why
    value: float | None = None  # what chooses: the mean over seeds on validation
    valid: dict[str, Any] = field(default_factory=dict)  # metric@k → mean over seeds and each seed's value
    steps: list[int] = field(default_factory=list)  # of each seed
    best_step: list[int] = field(default_factory=list)
    curve: dict[str, list[list[float]]] = field(default_factory=dict)  # seed → step and value of each look
    seconds: dict[str, float] = field(default_factory=dict)  # stage → wall time; of training that of the whole loop

    @property
    def name(self) -> str:
        return trial_name(self.method, self.number)


def trial_name(method: str, number: int) -> str:
    return f"{file_stem(method)}-{number:03}"


def finished_trial(plan: Plan, run: Run, trained_with: list[str]) -> Trial:
    """What a run says of the trial it was made for."""
    select_by = run.settings.evaluation.select_by
    history = run.model.fitted.history
    valid = summarise(run.model.valid)
    return Trial(
        **_plan(plan),
        trained_with=trained_with,
        value=valid[select_by]["mean"],
        valid=valid,
        steps=run.model.fitted.steps,
        best_step=run.model.fitted.best_steps,
        curve={
            str(seed): [[look.step, look.metrics[seed][select_by]] for look in history if seed in look.metrics]
            for seed in run.settings.run.seeds
        },
        seconds={stage: round(seconds, 3) for stage, seconds in run.seconds.items()},
    )


def failed_trial(plan: Plan, why: str) -> Trial:
    return Trial(**_plan(plan), trained_with=[plan.name], failed=why)


def repeated_trial(plan: Plan, earlier: Trial) -> Trial:
    """Values that were tried before need not be trained again: the same seeds would give the same bits."""
    return dataclasses.replace(earlier, number=plan.number, repeats=earlier.number, trained_with=[], seconds={})


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The best that did not fail, the first among equals."""
    judged = [(trial.value, trial) for trial in trials if trial.value is not None]
    return max(judged, key=lambda one: one[0])[1] if judged else None


def values_in_words(values: dict[str, Any]) -> str:
    """For screens, where a few digits are enough.

    >>> values_in_words({"training.l2": 0.00012345678, "positives.rank": 50})
    'training.l2 = 0.0001235, positives.rank = 50'
    """
    words = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in values.items()}
    return ", ".join(f"{name} = {value}" for name, value in words.items())


def _plan(plan: Plan) -> dict[str, Any]:
    # Not from `plan.settings`, which cannot be made of values that do not go together.
    settings = plan.base.as_dict()
    for section, own in by_section(plan.values).items():
        settings[section] |= own
    return {"method": plan.method, "number": plan.number, "values": plan.values, "settings": settings}
