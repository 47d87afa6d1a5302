"""How long a step of training takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from pspns.components import find_part
from pspns.denoising.none import NoDenoising
from pspns.shapes import Fitted, World
from pspns.starts.xavier import XavierStart
from pspns.training.loop import Watch
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

BATCH, SIZE = 2048, 64
STEPS_BEFORE = 10  # in which a recording is made and loops are compiled


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
