"""Generated, with known truth: users like any items; there is nothing to learn but popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._planted import PlantedDataset
from pspns.data.planted import Kind


@dataclass(frozen=True, kw_only=True)
class PlantedUnstructured(PlantedDataset):
    kind: ClassVar[Kind] = "unstructured"


COMPONENT = PlantedUnstructured
