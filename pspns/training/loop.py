"""The training loop: batch, negatives, loss, step; now and then a look at validation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pspns import gpu_kernels
from pspns.item_sets import RejectedItems
from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Denoiser, Sampler, State, part_of
from pspns.training.checkpoint import Checkpoint, Checkpoints
from pspns.training.epochs import Epochs
from pspns.training.kept_weights import KeptWeights
from pspns.training.plain_step import PlainStep
from pspns.training.recorded_step import RecordedStep
from pspns.training.stopping import EarlyStopping, Evaluation

if TYPE_CHECKING:
    from pspns.training.cpu_step import CpuStep
    from pspns.training.gpu_step import GpuStep

Watch = Callable[[int, int, Evaluation | None], None]
"""Told (step, last step, evaluation or None) after every step; may raise KeyboardInterrupt to end training there.

The last step is this one as soon as no replica goes on. If a denoiser needs a teacher, the teacher's steps come first,
counted by themselves.
"""


@dataclass(frozen=True)
class Saving:
    """Where a training writes its state down, how often, and where it goes on from."""

    checkpoints: Checkpoints
    seconds: float  # between two checkpoints, at least
    resume_from: Checkpoint | None = None
    # Of the training before the training, which some denoisers need; its checkpoints go when the first of the other is
    # there.
    is_teacher: bool = False

    @property
    def seconds_before(self) -> float:
        """Of training until the checkpoint it goes on from."""
        return float(self.resume_from.notes["stopping"]["seconds"]) if self.resume_from else 0.0


class Loop:
    """All replicas of a loop between two steps: what a step changes, and so what a checkpoint holds."""

    def __init__(
        self,
        model: EmbeddingModel,
        epochs: Epochs,
        rejected: RejectedItems,
        sampler: Sampler,
        denoiser: Denoiser,
        kept: KeptWeights,
        stopping: EarlyStopping,
        *,
        learning_rate: float,
        l2: Tensor,
    ):
        on_gpu = model.users.is_cuda
        self._model, self._epochs, self._rejected, self._sampler = model, epochs, rejected, sampler
        self._denoiser, self._kept, self._stopping = denoiser, kept, stopping
        self._step = _step_for(model, sampler, denoiser)(model, sampler, denoiser, kept, l2, learning_rate)
        self._loss_sum = torch.zeros_like(l2)  # [replicas] since the last evaluation
        stays_on_device = sampler.stays_on_device and denoiser.stays_on_device
        self._recorded = RecordedStep(self._take_step) if on_gpu and stays_on_device else None
        self._looked_at = 0
        self.step = 0

    def run(self, last_step: int, interval: int, watch: Watch, saving: Saving | None = None) -> None:
        """Train to the end; afterwards the model holds each replica at the state `stopping` kept."""
        saved_at = time.monotonic()
        while self.step < last_step and self._stopping.alive:
            ended = self._epochs.advance()
            if ended:
                self._end_epoch(ended)
            (self._recorded or self._take_step)()
            self.step += 1
            evaluation = self._look() if self.step % interval == 0 or self.step == last_step else None
            try:
                watch(self.step, last_step if self._stopping.alive else self.step, evaluation)
            except KeyboardInterrupt:
                if saving:
                    self._save(saving)
                raise
            if saving and evaluation and time.monotonic() - saved_at >= saving.seconds:
                self._save(saving)
                saved_at = time.monotonic()
        self._stopping.restore_best()

    def _take_step(self) -> None:
        self._loss_sum += self._step.take(self._epochs.batch())

    def _end_epoch(self, replicas: list[int]) -> None:
        if self._sampler.follows_epochs:
            self._step.settle()
            with torch.no_grad():
                self._sampler.end_epoch(replicas, self._model.propagate())
        if self._denoiser.follows_epochs:
            self._step.settle()
            self._denoiser.end_epoch(replicas, self._model.propagate())

    def _look(self) -> Evaluation:
        self._step.settle()
        mean_losses = self._loss_sum / (self.step - self._looked_at)
        evaluation, going_on = self._stopping.look(self.step, self._epochs.epochs, mean_losses, self._kept)
        self._looked_at = self.step
        self._loss_sum.zero_()
        self._kept.forget()
        if going_on is not None:
            self._keep(going_on)
        return evaluation

    def _keep(self, replicas: Tensor) -> None:
        """Replicas that have stopped leave the axis everywhere."""
        for part in (self._epochs, self._rejected, self._sampler, self._denoiser, self._kept, self._step):
            part.keep(replicas)
        self._loss_sum = self._loss_sum[replicas]
        if self._recorded:
            self._recorded.forget()

    def _save(self, saving: Saving) -> None:
        self._step.settle()
        notes = {
            "is_teacher": saving.is_teacher,
            "looked_at": self._looked_at,
            "stopping": self._stopping.notes(),
        }
        saving.checkpoints.write(self.step, self._state(), notes)

    def _state(self) -> State:
        """All tensors that a step or an evaluation changes; order of visits and random numbers follow from the step."""
        parts: dict[str, State] = {
            "model": {name: parameter.detach() for name, parameter in self._model.named_parameters()},
            "stopping": self._stopping.state(),
            "sampler": self._sampler.state(),
            "denoiser": self._denoiser.state(),
            "kept": self._kept.state(),
            "adam": self._step.state(),
            "loop": {"loss_sum": self._loss_sum},
        }
        return {f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on where the checkpoint was written, in a loop made as that one was and not yet run."""
        device, notes = self._loss_sum.device, checkpoint.notes
        state = {name: tensor.to(device) for name, tensor in checkpoint.tensors.items()}
        self._keep(torch.tensor(notes["stopping"]["alive"], dtype=torch.int64, device=device))
        self._model.restore(part_of(state, "model"))
        self._sampler.load_state(part_of(state, "sampler"))
        self._denoiser.load_state(part_of(state, "denoiser"))
        self._kept.load_state(part_of(state, "kept"))
        self._step.load_state(part_of(state, "adam"))  # after those whose tables it moves
        self._stopping.load(part_of(state, "stopping"), notes["stopping"])
        self._loss_sum = state["loop/loss_sum"]
        self.step, self._looked_at = checkpoint.step, notes["looked_at"]
        self._epochs.seek(self.step)


def _step_for(model: EmbeddingModel, sampler: Sampler, denoiser: Denoiser) -> type[PlainStep | CpuStep | GpuStep]:
    """The fastest form for this device, sampler and denoiser."""
    follows_vectors = not {"gradients", "layers"}.isdisjoint((sampler.reads, denoiser.reads))
    if follows_vectors or (model.users.is_cuda and not gpu_kernels.are_there()):
        return PlainStep
    # Each waits for the compiler of its device, which the other does not need.
    if model.users.is_cuda:
        from pspns.training.gpu_step import GpuStep

        return GpuStep
    from pspns.training.cpu_step import CpuStep

    return CpuStep
