"""One step of training as autograd and torch's own Adam take it: for samplers that make vectors, or without Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Denoiser, PositiveBatch, Sampler, State, part_of
from pspns.training.kept_weights import KeptWeights
from pspns.training.objective import drawn_rows, objective

OF_SAMPLER = "sampler-"  # before the names of what the sampler learns


class PlainStep:
    """Negatives, loss, gradient, Adam."""

    def __init__(
        self,
        model: EmbeddingModel,
        sampler: Sampler,
        denoiser: Denoiser,
        kept: KeptWeights,
        l2: Tensor,
        learning_rate: float,
    ):
        """`l2` `[replicas]` is each replica's weight of the squared lengths."""
        self._model, self._sampler, self._denoiser, self._kept, self._l2 = model, sampler, denoiser, kept, l2
        on_gpu = model.users.is_cuda
        # On the CPU the fused form rounds the last numbers of a table otherwise, unless they fill a register of 16.
        fused = on_gpu or model.users.shape[-1] % 16 == 0
        learned = list(self._learned().values())
        self._optimiser = torch.optim.Adam(learned, lr=learning_rate, fused=fused, capturable=on_gpu)

    def take(self, batch: PositiveBatch) -> Tensor:
        """Take the step; what it made smaller, `[replicas]`."""
        view = self._model.propagate_layers() if self._sampler.reads == "layers" else self._model.propagate()
        rows, negatives = drawn_rows(self._denoiser.choose_users(batch), self._sampler, self._denoiser, view)
        values, judged = objective(rows, negatives, view, self._denoiser, self._l2)
        self._kept.note(batch, rows, judged.kept)
        self._optimiser.zero_grad()
        values.sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return values.detach()

    def settle(self) -> None:
        """Have every row at the present step; here it always is."""

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones); the sampler must have kept its own."""
        moments = {
            learned: {
                name: value.index_select(0 if learned.startswith(OF_SAMPLER) else 1, replicas) if value.dim() else value
                for name, value in state.items()
            }
            for learned, state in self._moments.items()
        }
        self._l2 = self._l2[replicas]
        self._model.keep(replicas)
        self._continue_from(moments)

    def state(self) -> State:
        return {f"{learned}/{name}": value for learned, state in self._moments.items() for name, value in state.items()}

    def load_state(self, state: State) -> None:
        """Go on with a model and a sampler that have been restored."""
        self._continue_from({learned: part_of(state, learned) for learned in self._learned()})

    def _learned(self) -> dict[str, Tensor]:
        """What Adam changes: the model's tables, `[nodes, replicas, size]`, and the sampler's own, replicas first."""
        own = self._sampler.parameters()
        return dict(self._model.named_parameters()) | {f"{OF_SAMPLER}{name}": value for name, value in own.items()}

    @property
    def _moments(self) -> dict[str, State]:
        """None before the first step."""
        (group,) = self._optimiser.param_groups
        names = self._learned()
        return {
            name: self._optimiser.state.get(parameter, {})
            for name, parameter in zip(names, group["params"], strict=True)
        }

    def _continue_from(self, moments: dict[str, State]) -> None:
        (group,) = self._optimiser.param_groups
        learned = self._learned()
        group["params"] = list(learned.values())
        self._optimiser.state.clear()
        for name, parameter in learned.items():
            self._optimiser.state[parameter] = moments[name]
