"""Uniform negatives (RNS): any item the user does not have, all equally likely (Rendle et al. 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pspns.rng import ReplicaStream
from pspns.shapes import ModelView, Negatives, PositiveBatch, World, take


@dataclass(frozen=True, kw_only=True)
class UniformNegatives:
    def start(self, world: World, seeds: Sequence[int]) -> UniformSampler:
        world.rejected.check_room("negative")
        return UniformSampler(world, ReplicaStream(seeds, "negatives", world.device))


class UniformSampler:
    def __init__(self, world: World, stream: ReplicaStream):
        self._rejected = world.rejected
        self._stream = stream

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        items = self._rejected.draw_outside(batch.users, 1, self._stream).squeeze(-1)  # [replicas, rows]
        embeddings = take(model.final.items, items)
        base = embeddings if model.base is model.final else take(model.base.items, items)
        return Negatives(embeddings=embeddings, base_embeddings=base, items=items)

    def keep(self, replicas: Tensor) -> None:
        self._stream.keep(replicas)


COMPONENT = UniformNegatives
