"""What the paper's denoisers keep where the truth is planted: how much of it is true, how much of the truth is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pspns.components import find_part
from pspns.data.planted import PlantedWorld
from pspns.experiments._cells import MODELS as MODEL_WORDS
from pspns.experiments.cells import SEEDS, Cell, Terms
from pspns.experiments.experiment import Data, Job
from pspns.experiments.methods import method_words
from pspns.experiments.planted_truth import WORLDS, pairs_of, quality
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.telling import Telling
from pspns.run import run

DENOISERS = ("t-ce", "r-ce", "deca", "dcf", "pld")
"""Those of the paper."""
MODELS = ("mf", "lightgcn")
MOST_STEPS = 20_000


def record_name(world: str, model: str) -> str:
    """
    >>> record_name("planted-clustered", "mf")
    'denoised-planted-clustered-mf'
    """
    return f"denoised-{world}-{model}"


def jobs(data: str) -> Iterator[Job]:
    yield from jobs_on_worlds(data, record_name, measure)


def jobs_on_worlds(data: str, name_of: Callable[[str, str], str], measure: Callable[..., Record]) -> Iterator[Job]:
    """One for each world and model; made for the first data set that is asked for, and found by the others."""
    for world in WORLDS:
        for model in MODELS:
            name = name_of(world, model)
            yield Job(name, data, partial(measure, name, world, model))


def of_each_denoiser(
    records: Records, name_of: Callable[[str, str], str]
) -> Iterator[tuple[str, str, str, Record | None]]:
    """What it is in words, the denoiser, and its record's name with the record, if there is one."""
    for world in WORLDS:
        for model in MODELS:
            name = name_of(world, model)
            for method in DENOISERS:
                yield f"{world}, {MODEL_WORDS[model]}, {method_words(method)}", method, name, records.find(name)


def measure(name: str, world: str, model: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """Accuracy and coverage of observed pairs, as they are and as each denoiser weighs them, one figure for each seed;
    `interactions` are of another data set, and not looked at."""
    truth: PlantedWorld = find_part("datasets", world)().plant()
    terms = replace(terms, seeds=terms.seeds or SEEDS, max_steps=min(terms.max_steps, MOST_STEPS))
    denoisers: dict[str, Any] = {}
    for method in DENOISERS:
        telling.say(f"{world}, {model}: {method_words(method)}")
        settings = Cell(world, model, method).settings(terms, world)
        done = run(truth.interactions, settings, judge_test=False, watch=telling.watch)
        pairs = pairs_of(done.split, settings)
        kept = [quality(truth, done.split, pairs, weights) for weights in done.model.fitted.pair_weights]
        denoisers[method] = {
            **_figures(zip(*kept, strict=True)),
            "steps": done.model.fitted.steps,
            "best_step": done.model.fitted.best_steps,
        }
    return {
        **describe_job(name, done.split, settings, done.device),
        "model": model,
        "seeds": list(settings.run.seeds),
        "observed": _figures(quality(truth, done.split, pairs)),
        "denoisers": denoisers,
    }


def _figures(values: Any) -> dict[str, Any]:
    return dict(zip(("accuracy", "coverage"), values, strict=True))
