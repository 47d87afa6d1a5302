"""Uniform negatives (RNS): any item the user does not have, all equally likely (Rendle et al. 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pspns.negatives._stream_sampler import StreamSampler
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld


@dataclass(frozen=True, kw_only=True)
class UniformNegatives:
    def start(self, world: SharedWorld, seeds: Sequence[int]) -> UniformSampler:
        return UniformSampler(world, seeds)


class UniformSampler(StreamSampler):
    stays_on_device = True
    reads = "nothing"

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        return Negatives(items=self._rejected.draw_outside(batch.users, 1, self._stream).squeeze(-1))


COMPONENT = UniformNegatives
