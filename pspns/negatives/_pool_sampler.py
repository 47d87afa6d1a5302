"""Samplers that draw a few random items for each row and choose among them by the model's present scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pspns.needed_bytes import StepSizes
from pspns.negatives._stream_sampler import StreamSampler
from pspns.shapes import PositiveBatch, Reads, SharedWorld


class PoolSampler(StreamSampler):
    """Base of such samplers; what is left to write is `sample`."""

    stays_on_device = True
    reads: Reads = "scores"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], candidates: int, *, owned_too: bool = False):
        super().__init__(world, seeds)
        self._candidates, self._owned_too, self._n_items = candidates, owned_too, world.n_items

    def _pool(self, batch: PositiveBatch) -> Tensor:
        """Independent uniform items for each row, `[replicas, rows, candidates]`; one may be there twice."""
        if self._owned_too:
            return self._stream.integers(torch.full_like(batch.users, self._n_items), self._candidates)
        return self._rejected.draw_outside(batch.users, self._candidates, self._stream)


def pool_bytes(sizes: StepSizes, candidates: int) -> int:
    """A number and a score for each candidate of each row."""
    return sizes.of_rows((8 + 4) * candidates)


def pick(pool: Tensor, places: Tensor) -> Tensor:
    """The item at `[replicas, rows]` places of `[replicas, rows, candidates]` pools."""
    return pool.gather(-1, places[..., None]).squeeze(-1)
