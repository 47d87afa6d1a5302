"""Plain training: every observed pair is taken at its word (ERM, empirical risk minimisation).

Rule: L = mean of ℓ(s_ui, s_uj)
Cost: none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pspns.denoising._denoising import Denoising
from pspns.shapes import DenoisedWorld


@dataclass(frozen=True, kw_only=True)
class NoDenoising:
    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> Denoising:
        return Denoising(world.loss)


COMPONENT = NoDenoising
