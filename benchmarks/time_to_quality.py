"""Seconds on two cores until `recommended` is as good on validation as `plain` ever gets, beside those of EASE.

    python -m benchmarks.time_to_quality curves --data ml-1m.npz --device cuda --out curves.json
    python -m benchmarks.time_to_quality table --data ml-1m.npz --curves curves.json --out benchmarks/results

A run to the end takes hours on two cores. So the curves (step → Recall@20 on validation) come from whichever device is
at hand, and the seconds are steps of those curves times the milliseconds of a step measured here.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks._report import Report, describe_machine
from pspns.data.arrays import read_arrays
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.evaluation.protocol import STRICT
from pspns.experiments._members import changed, make_settings, recipe
from pspns.memory import MemoryBudget
from pspns.models.ease import Ease
from pspns.run import build_world, make_split, prepare_rankings, run, validator
from pspns.settings import Settings
from pspns.training.trainer import Member, Trainer

RECIPES = ("plain", "recommended")
MODELS = ("mf", "lightgcn")
SEEDS = (0, 1, 2)
SELECT_BY = "recall@20"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.time_to_quality", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("part", choices=("curves", "table"))
    parser.add_argument("--data", type=Path, required=True, help="a file of pspns.data.arrays.write_arrays")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-steps", type=int, default=200_000)
    parser.add_argument("--curves", type=Path, help="for `table`: what `curves` wrote")
    parser.add_argument("--out", type=Path, required=True, help="curves: a file; table: a folder")
    options = parser.parse_args()
    data = read_arrays(options.data)
    if options.part == "curves":
        found = {
            model: {name: curve(data, model, name, options.max_steps, options.device) for name in RECIPES}
            for model in MODELS
        }
        content = {"data": options.data.stem, "machine": describe_machine(), "curves": found}
        options.out.write_text(json.dumps(content) + "\n")
    else:
        written = json.loads(options.curves.read_text())
        machine = written.get("machine", {})
        counted_on = machine.get("gpu") or machine.get("processor") or "another device"
        report = table(data, written["curves"], written["data"], counted_on)
        report.write(options.out, f"time-to-quality-{written['data']}")


def settings_of(model: str, recipe_name: str, *, device: str = "cpu", **training: Any) -> Settings:
    run_settings = {"seeds": SEEDS, "baselines": False, "device": device}
    chosen = {"model": {"name": model}, "training": training, "run": run_settings}
    return make_settings(changed(recipe(recipe_name), chosen))


def curve(
    data: Interactions | GivenSplit, model: str, recipe_name: str, max_steps: int, device: str
) -> list[tuple[int, float]]:
    """(step, mean over seeds) for as long as all seeds are in training."""
    training: dict[str, Any] = {"max_steps": max_steps}
    if recipe_name == "recommended":  # soon there: looked at ten times as often, and as patient in steps
        n_train = len(make_split(data, settings_of(model, recipe_name), STRICT).train)
        interval = settings_of(model, recipe_name).training.interval(n_train)
        training |= {"evaluate_every": max(1, interval // 10), "patience": 100}
    history = run(data, settings_of(model, recipe_name, device=device, **training)).model.fitted.history
    return [
        (look.step, statistics.fmean(metrics[SELECT_BY] for metrics in look.metrics.values()))
        for look in history
        if len(look.metrics) == len(SEEDS)
    ]


def table(data: Interactions | GivenSplit, curves: dict[str, Any], name: str, counted_on: str) -> Report:
    report = Report(
        f"Time to quality: {name}",
        "Seconds on the CPU until the goal: the best Recall@20 of `plain` on validation, mean of three seeds. Steps to "
        f"the goal were counted on {counted_on} and multiplied by the time of a step measured here; what comes before "
        "the first step (pairs, SVD, start, graph) is measured here and added; evaluations are left out.",
        ("model", "recipe", "Recall@20 on validation", "steps", "ms a step", "built in, s", "seconds"),
    )
    for model, by_recipe in curves.items():
        best_step, goal = max(by_recipe["plain"], key=lambda point: point[1])
        there = [step for step, value in by_recipe["recommended"] if value >= goal]
        for recipe_name, steps in (("plain", best_step), ("recommended", there[0] if there else None)):
            milliseconds, built = _time_a_step(data, model, recipe_name)
            seconds = None if steps is None else round(built + steps * milliseconds / 1e3, 1)
            report.add(model, recipe_name, round(goal, 4), steps, round(milliseconds, 3), round(built, 2), seconds)
    seconds, value = _time_ease(data)
    report.add("ease", "best of four l2", round(value, 4), None, None, None, round(seconds, 1))
    return report


def _time_a_step(data: Interactions | GivenSplit, model: str, recipe_name: str) -> tuple[float, float]:
    """Milliseconds of one step of one replica, and the seconds of what comes before the first."""
    n_steps = 300 if model == "mf" else 40
    times, built = [], []
    for _ in range(3):
        settings = settings_of(model, recipe_name, steps=n_steps)
        began = time.perf_counter()
        world = build_world(make_split(data, settings, STRICT), settings, STRICT, MemoryBudget(torch.device("cpu")))
        member = Member(world, settings.start, settings.training.l2, SEEDS[:1], None)
        stamps: list[float] = []
        watch = functools.partial(_stamp, stamps)
        settings.model.fit(world, Trainer([member], settings.negatives, settings.training, SELECT_BY, watch))
        times.append((stamps[-1] - stamps[n_steps // 10]) / (n_steps - 1 - n_steps // 10))
        built.append(stamps[0] - began - times[-1])
    return 1e3 * statistics.median(times), statistics.median(built)


def _stamp(stamps: list[float], *_: Any) -> None:
    stamps.append(time.perf_counter())


def _time_ease(data: Interactions | GivenSplit) -> tuple[float, float]:
    """Seconds to fit it with l2 chosen on validation, and its Recall@20 there."""
    settings = settings_of("mf", "plain")
    split, memory = make_split(data, settings, STRICT), MemoryBudget(torch.device("cpu"))
    world = build_world(split, settings, STRICT, memory)
    validate = validator(prepare_rankings(split, settings, STRICT, split.train, memory), STRICT)
    assert validate is not None
    trainer = Trainer([Member(world, None, 0.0, (0,), validate)], None, settings.training, SELECT_BY, lambda *_: None)
    began = time.perf_counter()
    fitted = Ease().fit(world, trainer)
    return time.perf_counter() - began, validate(fitted.scorer, 0)[SELECT_BY]


if __name__ == "__main__":
    main()
