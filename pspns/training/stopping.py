"""When to look at validation, what to keep, and when a replica has had enough."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pspns.data.interactions import Floats
from pspns.errors import DivergedError
from pspns.evaluation.selection import is_better, worst
from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import State, Validate, part_of
from pspns.training.kept_weights import KeptWeights
from pspns.training.settings import TrainingSettings


@dataclass(frozen=True)
class Evaluation:
    """What one look at the validation part showed, for the replicas still in training.

    A replica goes by its number in the loop, and by its seed once its member's share of the loop is taken out.
    """

    step: int
    seconds: float  # of training so far, those before a resume and those of a teacher included
    epochs: dict[int, int]  # replica → epochs begun
    metrics: dict[int, dict[str, float]]  # replica → metric → value
    losses: dict[int, float]  # replica → mean objective since the last evaluation
    kept: dict[int, dict[str, float]] = field(default_factory=dict)
    """Replica → the mean weight that a denoiser gave since the last evaluation: of all pairs and, where noise was
    added, of true and of false ones; empty without a denoiser."""

    def of(self, first: int, seeds: Sequence[int]) -> Evaluation:
        """The replicas from `first` on, by their seeds."""
        seed_of = {first + place: seed for place, seed in enumerate(seeds)}
        own = [
            {seed_of[replica]: value for replica, value in values.items() if replica in seed_of}
            for values in (self.epochs, self.metrics, self.losses, self.kept)
        ]
        return Evaluation(self.step, self.seconds, *own)  # type: ignore[arg-type]


class EarlyStopping:
    """Keeps each replica's best state and lets it go on until its patience is spent.

    A fixed number of steps keeps the last state instead, and so does training without validation: then nothing
    held out has chosen it.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        settings: TrainingSettings,
        select_by: str,
        validators: Sequence[Validate | None],
        seconds_before: float = 0.0,
    ):
        """One validator for each replica; `seconds_before` went into training a teacher."""
        n_replicas = len(validators)
        self._model = model
        self._patience = settings.patience
        self._keeps_last = settings.steps is not None or None in validators
        self._select_by = select_by
        self._validators = validators
        self._best_value = [worst(select_by)] * n_replicas
        self._waited = [0] * n_replicas
        self._best_state = model.snapshot()
        self._began = time.perf_counter() - seconds_before
        self.alive = list(range(n_replicas))
        """The replicas still on the axis, by number."""
        self.best_step = [0] * n_replicas
        self.last_step = [0] * n_replicas
        self.history: list[Evaluation] = []
        self.pair_weights: dict[int, Floats] = {}
        """Replica → what a denoiser gave to each pair between its last two evaluations."""

    def look(
        self, step: int, epochs: Sequence[int], mean_losses: Tensor, kept: KeptWeights
    ) -> tuple[Evaluation, Tensor | None]:
        """Evaluate all replicas; the second value says which go on, if not all do (indices into the axis)."""
        diverged = [self.alive[place] for place in torch.nonzero(~torch.isfinite(mean_losses)).flatten().tolist()]
        if diverged:
            raise DivergedError(
                f"training diverged: at step {step:,} the loss of replica {', '.join(map(str, diverged))} (counted "
                "from 0, over the seeds of all settings) is no longer a finite number; lower [training] learning_rate, "
                "or the spread of the start"
            )
        scorer = self._model.scorer()
        metrics = []
        for place, replica in enumerate(self.alive):
            validate = self._validators[replica]
            metrics.append(validate(scorer, place) if validate else {})
        evaluation = Evaluation(
            step,
            time.perf_counter() - self._began,
            dict(zip(self.alive, epochs, strict=True)),
            dict(zip(self.alive, metrics, strict=True)),
            dict(zip(self.alive, mean_losses.tolist(), strict=True)),
            {} if kept.is_empty else dict(zip(self.alive, kept.by_truth(), strict=True)),
        )
        self.history.append(evaluation)
        if not kept.is_empty:
            self.pair_weights |= dict(zip(self.alive, kept.weights(), strict=True))
        going_on = [place for place in range(len(self.alive)) if self._goes_on(place, step, metrics[place])]
        if len(going_on) == len(self.alive):
            return evaluation, None
        self.alive = [self.alive[place] for place in going_on]
        return evaluation, torch.tensor(going_on, dtype=torch.int64, device=mean_losses.device)

    def restore_best(self) -> None:
        """Put every replica back on the axis, at its best."""
        self._model.restore(self._best_state)

    def state(self) -> State:
        """The best tables so far and the history, until the next evaluation changes them."""
        best = {f"best/{name}": table for name, table in self._best_state.items()}
        weights = {f"pair_weights/{replica}": torch.from_numpy(own) for replica, own in self.pair_weights.items()}
        return {**best, **weights, "history": _history_as_bytes(self.history)}

    def notes(self) -> dict[str, Any]:
        return {
            "alive": self.alive,
            "best_value": self._best_value,
            "waited": self._waited,
            "best_step": self.best_step,
            "last_step": self.last_step,
            "seconds": time.perf_counter() - self._began,
        }

    def load(self, state: State, notes: dict[str, Any]) -> None:
        """Go on where `state` and `notes` were taken."""
        self._best_state = {name: state[f"best/{name}"].to(table.device) for name, table in self._best_state.items()}
        self.alive, self._best_value, self._waited = notes["alive"], notes["best_value"], notes["waited"]
        self.best_step, self.last_step = notes["best_step"], notes["last_step"]
        self._began = time.perf_counter() - notes["seconds"]
        self.history = _history_of(state["history"])
        self.pair_weights = {int(replica): own.cpu().numpy() for replica, own in part_of(state, "pair_weights").items()}

    def _goes_on(self, place: int, step: int, metrics: dict[str, float]) -> bool:
        replica = self.alive[place]
        self.last_step[replica] = step
        value = float(metrics[self._select_by]) if metrics else worst(self._select_by)
        if self._keeps_last or is_better(self._select_by, value, self._best_value[replica]):
            self._best_value[replica], self.best_step[replica] = value, step
            self._waited[replica] = 0
            self._model.copy_replica(place, self._best_state, replica)
        else:
            self._waited[replica] += 1
        return self._waited[replica] < self._patience


def _history_as_bytes(history: Sequence[Evaluation]) -> Tensor:
    """JSON in a tensor, not in the notes: they share a header of at most 100 MB, and many short looks are longer."""
    return torch.frombuffer(bytearray(json.dumps([vars(look) for look in history]).encode()), dtype=torch.uint8)


def _history_of(written: Tensor) -> list[Evaluation]:
    return [_evaluation(**entry) for entry in json.loads(written.cpu().numpy().tobytes())]


def _evaluation(step: int, seconds: float, **by_replica: dict[str, Any]) -> Evaluation:
    """Back from JSON, which makes text of the numbers that are keys."""
    own = {name: {int(replica): value for replica, value in values.items()} for name, values in by_replica.items()}
    return Evaluation(step, seconds, **own)
