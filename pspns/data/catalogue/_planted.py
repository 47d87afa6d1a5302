"""What the planted data sets share: their settings, and how they are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pspns.data.catalogue._about import About
from pspns.data.download import Watch, unwatched
from pspns.data.interactions import Interactions
from pspns.data.planted import Kind, PlantedWorld, plant


@dataclass(frozen=True, kw_only=True)
class PlantedDataset:
    kind: ClassVar[Kind]
    about: ClassVar[About] = About(
        title="Planted",
        size="1,000 × 800, about 20,000 pairs, or as set",
        origin="generated",
        source="generated on your machine, each time it is used",
        terms="none: generated data",
        citation="none: generated data",
    )

    n_users: int = 1_000
    """Users in the world."""
    n_items: int = 800
    """Items in the world."""
    mean_preferences: float = 80.0
    """Items a user truly likes, on average."""
    mean_interactions: float = 20.0
    """Items a user interacts with, on average."""
    false_positive_share: float = 0.2
    """Share of all interactions that are no true preference."""
    popularity_skew: float = 1.0
    """How unequally items are seen: the r-th most exposed one has exposure r^−skew."""
    seed: int = 0
    """Which world of this kind: the same seed gives the same world."""

    def find(self, folder: Path | None) -> None:
        """Nowhere: it takes no file."""

    def get(self, folder: Path | None, watch: Watch = unwatched) -> None:
        """Nothing has to be there."""

    def load(self, folder: Path | None = None) -> Interactions:
        """The interactions; no file is read."""
        return self.plant().interactions

    def plant(self) -> PlantedWorld:
        """The interactions together with the truth behind them."""
        from pspns.rng import host_stream  # brings torch with it, for which a list of data sets must not wait

        return plant(
            self.kind,
            n_users=self.n_users,
            n_items=self.n_items,
            rng=host_stream(self.seed, "planted"),
            mean_preferences=self.mean_preferences,
            mean_interactions=self.mean_interactions,
            false_positive_share=self.false_positive_share,
            popularity_skew=self.popularity_skew,
        )
