"""One step of training as autograd and torch's own Adam take it: for samplers that make vectors, or without Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import PositiveBatch, Sampler, State
from pspns.training.objective import Loss, objective


class PlainStep:
    """Negatives, loss, gradient, Adam."""

    def __init__(self, model: EmbeddingModel, sampler: Sampler, loss: Loss, l2: Tensor, learning_rate: float):
        """`l2` `[replicas]` is each replica's weight of the squared lengths."""
        self._model, self._sampler, self._loss, self._l2 = model, sampler, loss, l2
        on_gpu = model.users.is_cuda
        # On the CPU the fused form rounds the last numbers of a table otherwise, unless they fill a register of 16.
        fused = on_gpu or model.users.shape[-1] % 16 == 0
        self._optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=fused, capturable=on_gpu)

    def take(self, batch: PositiveBatch) -> Tensor:
        """Take the step; what it made smaller, `[replicas]`."""
        view = self._model.propagate()
        negatives = self._sampler.sample(batch, view)
        values = objective(batch, negatives, view, self._loss, self._l2)
        self._optimiser.zero_grad()
        values.sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return values.detach()

    def settle(self) -> None:
        """Have every row at the present step; here it always is."""

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        moments = [
            {name: value[:, replicas].contiguous() if value.dim() else value for name, value in state.items()}
            for state in self._moments().values()
        ]
        self._l2 = self._l2[replicas]
        self._model.keep(replicas)
        self._continue_from(moments)

    def state(self) -> State:
        return {f"{table}/{name}": value for table, state in self._moments().items() for name, value in state.items()}

    def load_state(self, state: State) -> None:
        """Go on with a model that has been restored."""
        names = [name for name, _ in self._model.named_parameters()]
        self._continue_from([part_of(state, name) for name in names])

    def _moments(self) -> dict[str, State]:
        """Of each table; none before the first step."""
        return {name: self._optimiser.state.get(parameter, {}) for name, parameter in self._model.named_parameters()}

    def _continue_from(self, moments: list[State]) -> None:
        (group,) = self._optimiser.param_groups
        group["params"] = list(self._model.parameters())
        self._optimiser.state.clear()
        for parameter, state in zip(group["params"], moments, strict=True):
            self._optimiser.state[parameter] = state


def part_of(state: State, name: str) -> State:
    """What is filed under a name: `name/key` → `key`."""
    return {key.removeprefix(f"{name}/"): tensor for key, tensor in state.items() if key.startswith(f"{name}/")}
