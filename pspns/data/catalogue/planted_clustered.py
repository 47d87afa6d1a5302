"""Generated, with known truth: users mostly like the items of their own group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._planted import PlantedDataset
from pspns.data.planted import Kind


@dataclass(frozen=True, kw_only=True)
class PlantedClustered(PlantedDataset):
    kind: ClassVar[Kind] = "clustered"


COMPONENT = PlantedClustered
