"""The training loop: batch, negatives, loss, step; now and then a look at validation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Sampler
from pspns.training.epochs import Epochs
from pspns.training.objective import Loss, objective
from pspns.training.stopping import EarlyStopping, Evaluation

Watch = Callable[[int, int, Evaluation | None], None]
"""Told (step, last step, evaluation or None) after every step."""


def train(
    model: EmbeddingModel,
    epochs: Epochs,
    sampler: Sampler,
    loss: Loss,
    stopping: EarlyStopping,
    *,
    learning_rate: float,
    l2: float,
    last_step: int,
    interval: int,
    watch: Watch,
) -> None:
    """Train all replicas together; afterwards `model` holds each one at the state `stopping` kept."""
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    loss_sum, looked_at = torch.zeros(epochs.n_replicas, device=model.users.device), 0
    for step in range(1, last_step + 1):
        batch = epochs.next_batch()
        view = model.propagate()
        negatives = sampler.sample(batch, view)
        values = objective(batch, negatives, view, loss, l2)  # [replicas]

        optimiser.zero_grad()
        values.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

        loss_sum += values.detach()
        if step % interval and step < last_step:
            watch(step, last_step, None)
            continue
        evaluation, going_on = stopping.look(step, epochs.epoch, loss_sum / (step - looked_at))
        looked_at = step
        watch(step, last_step, evaluation)
        if going_on is not None:
            if len(going_on) == 0:
                break
            epochs.keep(going_on)
            sampler.keep(going_on)
            keep_replicas(model, optimiser, going_on)
        loss_sum = torch.zeros(epochs.n_replicas, device=model.users.device)
    stopping.restore_best()


def keep_replicas(model: EmbeddingModel, optimiser: torch.optim.Optimizer, replicas: Tensor) -> None:
    """Replicas that have stopped leave the axis: parameters and Adam's moments shrink alike."""
    (group,) = optimiser.param_groups
    states = [optimiser.state.pop(parameter) for parameter in group["params"]]
    model.keep(replicas)
    group["params"] = list(model.parameters())
    for parameter, state in zip(group["params"], states, strict=True):
        optimiser.state[parameter] = {
            name: value[:, replicas].contiguous() if value.dim() else value for name, value in state.items()
        }
