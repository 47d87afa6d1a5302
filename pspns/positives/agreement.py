"""The observed pairs, those that the global pattern proposes too in several copies; nothing unobserved is added."""

from __future__ import annotations

from dataclasses import dataclass

from pspns.positives.psp import PspPositives
from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class AgreementPositives(PspPositives):
    """Not in the paper: its copies without its injected pairs."""

    def build(self, ground: Ground) -> PositivePairs:
        pairs = super().build(ground)
        return pairs.only(pairs.is_observed)


COMPONENT = AgreementPositives
