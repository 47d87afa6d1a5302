"""How long a step of training takes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks._world import movielens, read_data
from pspns.components import find_part
from pspns.denoising.none import NoDenoising
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.run import build_world, choose_device, make_split
from pspns.settings import RunSettings, Settings
from pspns.shapes import Fitted, World
from pspns.starts.xavier import XavierStart
from pspns.training.loop import Watch
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

BATCH, SIZE = 2048, 64
STEPS_BEFORE = 10  # in which a recording is made and loops are compiled


def parse_options(program: str, description: str) -> argparse.Namespace:
    """Of a program that times steps."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument(
        "--data", type=Path, help="a folder of data files, or an .npz of write_arrays; unset: as in `make bench`"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", nargs="+", default=["lightgcn", "mf"])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=200, help="timed in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    return parser.parse_args()


def world_of(options: argparse.Namespace) -> World:
    settings = Settings(run=RunSettings(device=options.device))
    split = make_split(read_data(options.data), settings, STRICT) if options.data else movielens()[0]
    return build_world(split, settings, STRICT, MemoryBudget(choose_device(options.device)))


def world_words(options: argparse.Namespace, world: World) -> str:
    return (
        f"{options.data.stem if options.data else 'generated data'}: {world.n_users:,} users, {world.n_items:,} items, "
        f"{len(world.train):,} pairs; batch {BATCH:,}, size {SIZE}, float32; medians of {options.rounds} rounds of "
        f"{options.steps} steps"
    )


def train(
    world: World,
    model: str,
    n_replicas: int,
    n_steps: int,
    watch: Watch,
    *,
    negatives: Any,
    denoiser: Any = NoDenoising(),  # noqa: B008
    loss: str = "bpr",
) -> Fitted:
    """So many steps without a look in between."""
    settings = TrainingSettings(loss=loss, steps=n_steps, batch_size=BATCH, evaluate_every=10**9)
    member = Member(world, XavierStart(), settings.l2, range(n_replicas), None)
    trainer = Trainer([member], negatives, settings, "recall@20", watch, denoiser=denoiser)
    fitted: Fitted = find_part("models", model)(embedding_size=SIZE).fit(world, trainer)
    return fitted


def seconds_a_step(
    world: World, model: str, n_replicas: int, n_steps: int, n_before: int = STEPS_BEFORE, **parts: Any
) -> float:
    clock = _Clock(n_before, n_before + n_steps, world.device)
    train(world, model, n_replicas, n_before + n_steps, clock, **parts)
    return clock.seconds / n_steps


class _Clock:
    """Watches a training and times the steps from one to another."""

    def __init__(self, first: int, last: int, device: torch.device):
        self._first, self._last = first, last
        self._wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self._began = self.seconds = 0.0

    def __call__(self, step: int, last_step: int, evaluation: object) -> None:
        if step == self._first:
            self._wait()
            self._began = time.perf_counter()
        elif step == self._last:
            self._wait()
            self.seconds = time.perf_counter() - self._began
