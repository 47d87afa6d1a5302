"""What data sets in files share: they are found in the data folder, and known by their counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pspns.components import part_name
from pspns.data.catalogue._about import About
from pspns.data.download import Watch, unwatched
from pspns.data.files import known_suffixes
from pspns.data.formats._text import bare_name
from pspns.data.interactions import Interactions
from pspns.data.load import load as read
from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Counts:
    users: int
    items: int
    parts: tuple[int, ...]  # pairs in train, valid and test; or in the one file that holds them all
    with_repeats: bool = False  # `parts` are rows, and some rows repeat a pair
    note: str = ""  # what is special about files with these counts, for who reads them

    @classmethod
    def of(cls, data: Interactions | GivenSplit) -> Counts:
        if isinstance(data, Interactions):
            return cls(users=len(data.user_ids), items=len(data.item_ids), parts=(len(data),))
        pairs = data.interactions
        sizes = np.bincount(data.parts, minlength=len(Part))
        return cls(users=len(pairs.user_ids), items=len(pairs.item_ids), parts=tuple(sizes.tolist()))

    def words(self) -> str:
        """
        >>> Counts(users=943, items=1574, parts=(66_016, 8_252, 8_252)).words()
        '943 × 1,574, 82,520 pairs'
        """
        rows = "rows, in which pairs repeat" if self.with_repeats else "pairs"
        return f"{self.users:,} × {self.items:,}, {sum(self.parts):,} {rows}"

    def in_full(self) -> str:
        """
        >>> Counts(users=943, items=1574, parts=(66_016, 8_252, 8_252)).in_full()
        '943 × 1,574, 82,520 pairs: 66,016 train, 8,252 valid, 8,252 test'
        """
        named = [f"{size:,} {part.name.lower()}" for size, part in zip(self.parts, Part, strict=False)]
        return f"{self.words()}: {', '.join(named)}" if len(self.parts) > 1 else self.words()

    def fit(self, found: Counts) -> bool:
        """Could data with the counts `found` be those that these counts describe?"""
        if (found.users, found.items) != (self.users, self.items):
            return False
        if self.with_repeats:
            return all(size <= rows for size, rows in zip(found.parts, self.parts, strict=True))
        # Shares of all pairs are rounded up by some and down by others.
        is_near = [abs(size - expected) <= 1 for size, expected in zip(found.parts, self.parts, strict=False)]
        return sum(found.parts) == sum(self.parts) and (len(found.parts) == 1 or all(is_near))


@dataclass(frozen=True, kw_only=True)
class LocalDataset:
    about: ClassVar[About]
    known: ClassVar[tuple[Counts, ...]]  # of the whole data set, and of parts of it that are in use
    split: ClassVar[Any] = None  # how all pairs in one file are split; None: ready-made parts only
    min_rating: ClassVar[float | None] = None  # from which rating on a pair counts, where one file holds all
    other_names: ClassVar[tuple[str, ...]] = ()  # of that file, without suffix; its first name is the data set's

    @property
    def name(self) -> str:
        return part_name("datasets", self)

    def find(self, folder: Path | None) -> Path | None:
        """Where the data set lies now: a folder of parts, or one file; None where there is neither."""
        if folder is None:
            return None
        if not folder.is_dir():
            raise DataError(
                f"the data folder {folder} does not exist; name another (PSPNS_DATA or its option), or none"
            )
        home = folder / self.name
        if any("train" in path.name.lower().split(".") for path in _files(home)):
            return home
        places = [(home, name) for name in (*self.other_names, self.name)] + [(folder, self.name)]
        tables = (path for place, name in places for path in _files(place) if _is_table(path, name))
        return next(tables, None) if self.split is not None else None

    def get(self, folder: Path | None, watch: Watch = unwatched) -> Path:
        """Where the files lie, or an error that tells how to obtain them; `load` checks what is in them."""
        if path := self.find(folder):
            return path
        parts = (
            f"{self.name}/train.*, valid.* and test.*" if self.known[0].parts[1] else f"{self.name}/train.* and test.*"
        )
        wanted = parts if self.split is None else f"{parts}, or {self.name}/{self.name}.* with all pairs"
        raise DataError(
            f"{self.name} must be provided, and "
            + (f"{folder} does not have it" if folder else "no data folder is named; set PSPNS_DATA to one")
            + f": expected {wanted} in it. To obtain them, {self.about.source}"
        )

    def load(self, folder: Path | None = None) -> Interactions | GivenSplit:
        """The pairs, and how they are split: as the folder has it, or by the usual rule."""
        path = self.get(folder)
        data = read(path, min_rating=self.min_rating if path.is_file() else None)
        counts = self._recognise(Counts.of(data), path)
        facts = [f"{self.about.title}: {fact}" for fact in (counts.note, self.about.terms) if fact]
        if isinstance(data, Interactions):
            return replace(data, facts=(*data.facts, *facts), usual_split=self.split)
        return replace(data, interactions=replace(data.interactions, facts=(*data.interactions.facts, *facts)))

    def _recognise(self, found: Counts, path: Path) -> Counts:
        for counts in self.known:
            if counts.fit(found):
                return counts
        expected = " or ".join(counts.in_full() for counts in self.known)
        raise DataError(
            f"{path} is not the {self.about.title} that is known as '{self.name}': it has {found.in_full()}; "
            f"expected {expected}; to use it as it is, give its path as the data"
        )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_file())


def _is_table(path: Path, name: str) -> bool:
    bare = bare_name(path)
    is_known = path.suffix.lower() == ".zip" or bare.suffix.lower() in known_suffixes()
    return bare.stem.lower() == name and is_known
