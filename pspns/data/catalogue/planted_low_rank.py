"""Generated, with known truth: users like items whose latent factors agree with theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._planted import PlantedDataset
from pspns.data.planted import Kind


@dataclass(frozen=True, kw_only=True)
class PlantedLowRank(PlantedDataset):
    kind: ClassVar[Kind] = "low-rank"


COMPONENT = PlantedLowRank
