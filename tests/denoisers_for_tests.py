"""A denoiser outside the package: every row counts alike, but more or less than it would."""

from dataclasses import dataclass

import torch

from pspns.denoising._denoising import Denoising
from pspns.shapes import JudgedRows


@dataclass(frozen=True, kw_only=True)
class ConstantWeight:
    weight: float = 0.5
    """Of every row."""

    def start(self, world, seeds):
        return Weighing(world.loss, self.weight)


class Weighing(Denoising):
    def __init__(self, loss, weight):
        super().__init__(loss)
        self._weight = weight

    def judge(self, rows):
        losses = self._weight * self._loss(rows.positive, rows.negative)
        return JudgedRows(losses, torch.full_like(losses, self._weight))


COMPONENT = ConstantWeight
