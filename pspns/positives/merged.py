"""Observed and proposed pairs together, once each."""

from __future__ import annotations

from dataclasses import dataclass

from pspns.positives._merge import merge
from pspns.positives._proposals import GlobalPattern
from pspns.shapes import Ground, PositivePairs


@dataclass(frozen=True, kw_only=True)
class MergedPositives(GlobalPattern):
    """The paper's row W-hop: the edges of Ĝ without their weights."""

    def build(self, ground: Ground) -> PositivePairs:
        return merge(ground, self.propose(ground))


COMPONENT = MergedPositives
