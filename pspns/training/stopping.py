"""When to look at validation, what to keep, and when a replica has had enough."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pspns.errors import PspnsError
from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Validate
from pspns.training.settings import TrainingSettings


@dataclass(frozen=True)
class Evaluation:
    """What one look at the validation part showed."""

    step: int
    epoch: int
    seconds: float  # since training began
    metrics: dict[int, dict[str, float]]  # seed → metric → value, for the replicas still in training
    losses: dict[int, float]  # seed → mean objective since the last evaluation


class EarlyStopping:
    """Keeps each replica's best state and lets it go on until its patience is spent.

    A fixed number of steps keeps the last state instead, and so does training without validation: then nothing
    held out has chosen it.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        settings: TrainingSettings,
        seeds: Sequence[int],
        select_by: str,
        validate: Validate | None,
    ):
        self._model = model
        self._patience = settings.patience
        self._keeps_last = settings.steps is not None or validate is None
        self._seeds = list(seeds)
        self._select_by = select_by
        self._validate = validate
        self._alive = list(range(len(seeds)))  # the replicas still on the axis, by number
        self._best_value = [-math.inf] * len(seeds)
        self._waited = [0] * len(seeds)
        self._best_state = model.snapshot()
        self._began = time.perf_counter()
        self.best_step = [0] * len(seeds)
        self.last_step = [0] * len(seeds)
        self.history: list[Evaluation] = []

    def look(self, step: int, epoch: int, mean_losses: Tensor) -> tuple[Evaluation, Tensor | None]:
        """Evaluate all replicas; the second value says which go on, if not all do (indices into the axis)."""
        if not bool(torch.isfinite(mean_losses).all()):
            raise PspnsError(
                f"training diverged: the loss is no longer a finite number at step {step:,}; "
                "lower [training] learning_rate, or the spread of the start"
            )
        metrics = self._validate(self._model.scorer()) if self._validate else [{} for _ in self._alive]
        evaluation = Evaluation(
            step,
            epoch,
            time.perf_counter() - self._began,
            {self._seeds[replica]: metrics[place] for place, replica in enumerate(self._alive)},
            {self._seeds[replica]: float(mean_losses[place]) for place, replica in enumerate(self._alive)},
        )
        self.history.append(evaluation)
        going_on = [place for place in range(len(self._alive)) if self._goes_on(place, step, metrics[place])]
        if len(going_on) == len(self._alive):
            return evaluation, None
        self._alive = [self._alive[place] for place in going_on]
        return evaluation, torch.tensor(going_on, dtype=torch.int64, device=mean_losses.device)

    def restore_best(self) -> None:
        """Put every replica back on the axis, at its best."""
        self._model.restore(self._best_state)

    def _goes_on(self, place: int, step: int, metrics: dict[str, float]) -> bool:
        replica = self._alive[place]
        self.last_step[replica] = step
        value = metrics[self._select_by] if metrics else -math.inf
        if self._keeps_last or value > self._best_value[replica]:
            self._best_value[replica], self.best_step[replica] = value, step
            self._waited[replica] = 0
            self._model.copy_replica(place, self._best_state, replica)
        else:
            self._waited[replica] += 1
        return self._waited[replica] < self._patience
