"""A sampler whose only memory is how many random numbers it has drawn."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pspns.rng import ReplicaStream
from pspns.shapes import ModelView, Reads, SharedWorld, State


class StreamSampler:
    """Base of samplers that keep nothing between steps; what is left to write is `sample`."""

    stays_on_device = False
    follows_epochs = False
    reads: Reads = "gradients"

    def __init__(self, world: SharedWorld, seeds: Sequence[int]):
        world.rejected.check_room("negative")
        self._rejected = world.rejected
        self._stream = ReplicaStream(seeds, "negatives", world.device)

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        """Nothing is kept from one epoch to the next."""

    def parameters(self) -> dict[str, Tensor]:
        return {}

    def keep(self, replicas: Tensor) -> None:
        self._stream.keep(replicas)

    def state(self) -> State:
        return self._stream.state()

    def load_state(self, state: State) -> None:
        self._stream.load_state(state)
