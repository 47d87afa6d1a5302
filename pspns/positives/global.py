"""What the global pattern proposes, and nothing that was only observed."""

from __future__ import annotations

from dataclasses import dataclass

from pspns.positives._merge import merge
from pspns.positives._proposals import GlobalPattern
from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class GlobalPositives(GlobalPattern):
    """The paper's row SVD-hop."""

    def build(self, ground: Ground) -> PositivePairs:
        merged = merge(ground, self.propose(ground))
        return merged.only(merged.is_global)


COMPONENT = GlobalPositives
