"""How time and memory grow with the interactions: users and items grow along, so that the degrees stay as they are.

    python -m benchmarks.growth

Every figure comes from a process of its own; memory is what rose above the loaded data at most.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from benchmarks._crowd import crowd
from benchmarks._peak import in_a_process, measure
from benchmarks._report import RESULTS, Report
from pspns.data.interactions import Interactions
from pspns.data.split import Split
from pspns.data.splits.random import RandomSplit
from pspns.evaluation.protocol import STRICT
from pspns.evaluation.ranking import FullRanking
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.psp import PspPositives
from pspns.run import build_world
from pspns.settings import Settings
from pspns.shapes import Ground, World
from pspns.starts.xavier import XavierStart
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

# More than 1,000 users and items in train, so that the SVD is randomized at every size.
USERS, ITEMS, PAIRS = 2_000, 1_100, 60_000
FACTORS = (1, 2, 4, 8, 16, 32, 64)
LIGHTGCN_STEPS = 6
# Work that takes a moment is done again, and the quickest counts.
ENOUGH_SECONDS, MOST_REPEATS = 2.0, 5

Work = Callable[[], float]
"""Does it once; seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.partition(":")[0])
    parser.add_argument("--largest", type=int, default=FACTORS[-1], help="the largest factor")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", nargs=2, metavar=("TASK", "FACTOR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_one(options.measure[0], int(options.measure[1]))))
        return
    run([factor for factor in FACTORS if factor <= options.largest]).write(options.out, "growth")


def run(factors: Sequence[int]) -> Report:
    """A row of seconds and a row of MiB for each task, with the exponents that fit them."""
    report = Report(
        "Growth",
        f"{USERS:,} users × {ITEMS:,} items × {PAIRS:,} generated pairs, and multiples of all three. A tenth each is "
        "held out for validation and test. An exponent is the slope of log figure over log pairs, by least squares: "
        "over all sizes, and over the largest three, where fixed costs no longer show. Build and full ranking score "
        "every user with every item, and users × items grow with the square of the pairs here, so their exponent goes "
        "towards 2 while the time for one such score falls to its floor. An epoch of LightGCN has steps in proportion "
        "to the pairs, and each goes over all edges: 2, too. One of MF lies between 1 and 2: it has as many steps, "
        "and Adam lets every row decay at every step, whether it has a gradient or not.",
        ("what", *(f"{factor}×" for factor in factors), "exponent", "of the largest"),
    )
    for task, (title, scores_all) in TASKS.items():
        found = [in_a_process("benchmarks.growth", "--measure", task, factor) for factor in factors]
        seconds, peaks = ([one[key] for one in found] for key in ("seconds", "peak_mib"))
        report.add(f"{title}, s", *map(_shown, seconds), *_exponents(factors, seconds))
        report.add(f"{title}, MiB", *map(_shown, peaks), *_exponents(factors, peaks))
        if scores_all:
            each = [1e9 * s / (USERS * ITEMS * factor**2) for s, factor in zip(seconds, factors, strict=True)]
            report.add(f"{title}, ns a user × item", *(f"{value:.2f}" for value in each), None, None)
    return report


def measure_one(task: str, factor: int) -> dict[str, float]:
    """Seconds and peak MiB of one task at one size, after it was done at the smallest, which compiles what it needs."""
    prepare = PREPARE[task]
    prepare(*_data(1))()
    work = prepare(*_data(factor))
    seconds: list[float] = []

    def repeat() -> None:
        while not seconds or (len(seconds) < MOST_REPEATS and sum(seconds) < ENOUGH_SECONDS):
            seconds.append(work())

    peak = measure(repeat)["peak_mib"]
    return {"seconds": min(seconds), "peak_mib": max(peak, 0.1)}


def _build(split: Split, world: World) -> Work:
    def work() -> float:
        ground = Ground(split.n_users, split.n_items, split.train, 0, world.memory)  # without an SVD made before
        return _timed(lambda: PspPositives().build(ground))

    return work


def _mf(split: Split, world: World) -> Work:
    trainer = _trainer(world, _steps_an_epoch(world))
    return lambda: _timed(lambda: MatrixFactorisation().fit(world, trainer))


def _lightgcn(split: Split, world: World) -> Work:
    """A few steps, the first left out, as if an epoch had been made of them."""
    ends: list[float] = []
    trainer = _trainer(world, LIGHTGCN_STEPS, lambda *_: ends.append(time.perf_counter()))

    def work() -> float:
        ends.clear()
        LightGcn().fit(world, trainer)
        return _steps_an_epoch(world) * (ends[-1] - ends[0]) / (len(ends) - 1)

    return work


def _evaluation(split: Split, world: World) -> Work:
    generator = torch.Generator().manual_seed(0)
    vectors = (torch.randn(n, 1, 64, generator=generator) for n in (split.n_users, split.n_items))
    scorer = DotProduct(*vectors)
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items))
    known = [split.train, split.valid]
    ranking = FullRanking(split.test, known, counts, split.n_users, (20, 30), world.memory)
    return lambda: _timed(lambda: ranking.judge(scorer, 0))


PREPARE: dict[str, Callable[[Split, World], Work]] = {
    "build": _build,
    "mf": _mf,
    "lightgcn": _lightgcn,
    "evaluation": _evaluation,
}
# Task → its title, and whether it scores every user with every item.
TASKS = {
    "build": ("PSP build, rank 50", True),
    "mf": ("MF epoch", False),
    "lightgcn": (f"LightGCN epoch ({LIGHTGCN_STEPS - 1} steps, scaled)", False),
    "evaluation": ("full ranking", True),
}


def _data(factor: int) -> tuple[Split, World]:
    pieces = list(crowd(factor * USERS, factor * ITEMS, factor * PAIRS))
    users, items = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    data = Interactions.from_arrays(users, items)
    split = Split.from_parts(data, RandomSplit().assign(data, np.random.default_rng(0)), "generated")
    return split, build_world(split, Settings(), STRICT, MemoryBudget(torch.device("cpu")))


def _trainer(world: World, steps: int, watch: Callable[..., None] = lambda *_: None) -> Trainer:
    settings = TrainingSettings(steps=steps, evaluate_every=steps)
    return Trainer([Member(world, XavierStart(), settings.l2, (0,), None)], UniformNegatives(), settings, "", watch)


def _steps_an_epoch(world: World) -> int:
    return math.ceil(world.pairs.n_visits / TrainingSettings().batch_size)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _shown(figure: float) -> str:
    return f"{figure:.3g}" if figure < 1000 else f"{figure:,.0f}"


def _exponents(factors: Sequence[int], figures: Sequence[float]) -> tuple[float | None, float | None]:
    return _slope(factors, figures), _slope(factors[-3:], figures[-3:])


def _slope(factors: Sequence[int], figures: Sequence[float]) -> float | None:
    if len(factors) < 2:
        return None
    return round(float(np.polyfit(np.log(factors), np.log(figures), 1)[0]), 2)


if __name__ == "__main__":
    main()
