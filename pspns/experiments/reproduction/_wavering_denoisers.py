"""Do denoisers doubt other pairs late in training than early? Weights of two stages, and of two looks side by side."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from pspns.components import find_part
from pspns.data.interactions import Floats
from pspns.data.planted import PlantedWorld
from pspns.evaluation.protocol import STRICT
from pspns.experiments.cells import SEEDS, Cell, Terms
from pspns.experiments.experiment import Data, Job
from pspns.experiments.methods import method_words
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._comparisons import UNTESTED, told_from_luck
from pspns.experiments.reproduction._denoised_worlds import DENOISERS, jobs_on_worlds, of_each_denoiser
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.telling import Telling
from pspns.experiments.verdicts import Outcome, Verdict, judge
from pspns.run import make_split, run

MOST_STEPS = 800
"""Where the last look is; on these worlds about half of the trainings are at their best before."""
EARLY, BEFORE, LATE = "early", "look before", "late"
ALL_THE_SAME = "all pairs had the same weight"


def record_name(world: str, model: str) -> str:
    """
    >>> record_name("planted-clustered", "mf")
    'wavering-planted-clustered-mf'
    """
    return f"wavering-{world}-{model}"


def jobs(data: str) -> Iterator[Job]:
    yield from jobs_on_worlds(data, record_name, measure)


def measure(name: str, world: str, model: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """How alike a denoiser's weights of all pairs are at two moments, one figure for each seed; `interactions` are of
    another data set, and not looked at.

    A weight is that between two looks at validation. The same training is begun anew for each moment, which changes
    nothing on the way, as no look changes what is trained.
    """
    truth: PlantedWorld = find_part("datasets", world)().plant()
    terms = replace(terms, seeds=terms.seeds or SEEDS)
    settings = Cell(world, model, DENOISERS[0]).settings(terms, world)
    n_train = len(make_split(truth.interactions, settings, STRICT).train)
    moments = moments_of(min(terms.max_steps, MOST_STEPS), settings.training.interval(n_train))
    found: dict[str, Any] = {}
    for method in DENOISERS:
        telling.say(f"{world}, {model}: {method_words(method)}")
        weights: dict[str, list[Floats]] = {}
        for moment, step in moments.steps.items():
            changes = (("training.steps", step), ("training.evaluate_every", moments.interval))
            settings = Cell(world, model, method, changes=changes).settings(terms, world)
            done = run(truth.interactions, settings, judge_test=False, watch=telling.watch)
            weights[moment] = done.model.fitted.pair_weights
        found[method] = {
            moment: [alike(then, now) for then, now in zip(weights[moment], weights[LATE], strict=True)]
            for moment in (EARLY, BEFORE)
        }
    return {
        **describe_job(name, done.split, settings, done.device),
        "model": model,
        "seeds": list(settings.run.seeds),
        "steps": moments.steps,
        "alike": found,
    }


@dataclass(frozen=True)
class Moments:
    steps: dict[str, int]
    interval: int
    """Steps between two looks."""


def moments_of(most: int, usual_interval: int) -> Moments:
    """Late is the last look, early a quarter of the way there.

    >>> moments_of(800, 40)
    Moments(steps={'early': 200, 'look before': 760, 'late': 800}, interval=40)
    >>> moments_of(20, 40)
    Moments(steps={'early': 5, 'look before': 15, 'late': 20}, interval=5)
    """
    interval = max(1, min(usual_interval, most // 4))
    n_looks = most // interval
    looks = {EARLY: max(1, n_looks // 4), BEFORE: n_looks - 1, LATE: n_looks}
    return Moments({moment: interval * look for moment, look in looks.items()}, interval)


def alike(then: Floats, now: Floats) -> float | None:
    """Spearman's rank correlation of the weights of all pairs; None where all of one moment are the same.

    >>> alike(np.array([0.1, 0.5, 0.9]), np.array([1.0, 2.0, 3.0])), alike(np.ones(3), np.array([1.0, 2.0, 3.0]))
    (1.0, None)
    """
    if np.ptp(then) == 0 or np.ptp(now) == 0:
        return None
    return float(stats.spearmanr(then, now).statistic)


def denoisers_waver(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Weights of an early stage are less like those of the end than the weights of the look before are: these differ
    by what chance drew alone. Both protocols train denoisers alike."""
    outcomes: list[Outcome] = []
    p_values: dict[int, float] = {}
    for what, method, name, record in of_each_denoiser(records, record_name):
        if record is None:
            outcomes.append(Outcome(what, None))
            continue
        early, before = (record["alike"][method][moment] for moment in (EARLY, BEFORE))
        if None in (*early, *before):
            outcomes.append(Outcome(what, None, why_not=ALL_THE_SAME))
            continue
        if len(early) > 1:
            p_values[len(outcomes)] = float(stats.ttest_ind(early, before, equal_var=False).pvalue)
        at = record["steps"]
        figures = (
            f"ranks of weights at step {at[LATE]:,} correlate with those at step {at[EARLY]:,} by "
            f"{statistics.mean(early):.2f}, with those at step {at[BEFORE]:,} by {statistics.mean(before):.2f}"
        )
        holds = statistics.mean(early) < statistics.mean(before)
        outcomes.append(Outcome(what, holds, figures, UNTESTED, records=(name,)))
    return judge(told_from_luck(outcomes, p_values), of="denoisers on planted worlds")
