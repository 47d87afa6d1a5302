"""MovieLens-100K: 943 people and the 1,574 films they rated 3 or better, 82,520 pairs with times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pspns.data.download import cache_folder, fetch_from_package
from pspns.data.interactions import Interactions
from pspns.errors import DataError

# How GroupLens writes it, and how RecBole does; the ratings are the same.
_GROUPLENS_FILE, _RECBOLE_FILE = "u.data", "ml-100k.inter"
_RECBOLE_HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"

_COLUMNS = np.dtype([("user", np.int64), ("item", np.int64), ("rating", np.float64), ("time", np.float64)])
_EXPECTED = (100_000, 82_520, 943, 1_574)  # ratings; pairs at 3 or better, their users, their items


@dataclass(frozen=True, kw_only=True)
class MovieLens100K:
    terms: ClassVar[str] = (
        "Collected by GroupLens, University of Minnesota. For research use, with citation; not to be "
        "redistributed, nor used commercially, without their permission."
    )
    citation: ClassVar[str] = (
        "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
        "ACM Transactions on Interactive Intelligent Systems 5(4), article 19. doi:10.1145/2827872"
    )

    def load(self, folder: Path | None = None) -> Interactions:
        """From `folder` or its subfolder `ml-100k`, else from the cache, else through pip into the cache."""
        path = _find(folder) if folder is not None else None
        return _read(path or _fetch())


def _find(folder: Path) -> Path | None:
    places = [place / name for place in (folder / "ml-100k", folder) for name in (_GROUPLENS_FILE, _RECBOLE_FILE)]
    return next((path for path in places if path.is_file()), None)


def _fetch() -> Path:
    return fetch_from_package(
        "recbole==1.2.1",
        "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
        f"recbole/dataset_example/ml-100k/{_RECBOLE_FILE}",
        "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        cache_folder() / "ml-100k" / _RECBOLE_FILE,
    )


def _read(path: Path) -> Interactions:
    rows = _read_rows(path)
    pairs = Interactions.from_arrays(
        rows["user"], rows["item"], ratings=rows["rating"], times=rows["time"], min_rating=3
    )
    found = (len(rows), len(pairs), len(pairs.user_ids), len(pairs.item_ids))
    if found != _EXPECTED:
        counts = "{:,} ratings, of which {:,} pairs at 3 or better, from {:,} users on {:,} items"
        raise DataError(
            f"{path} is not MovieLens-100K: it has {counts.format(*found)}; expected "
            f"{counts.format(*_EXPECTED)}; to use it as it is, give the file itself as the data"
        )
    return replace(pairs, facts=(*pairs.facts, f"MovieLens-100K: {MovieLens100K.terms}"))


def _read_rows(path: Path) -> NDArray[np.void]:
    has_header = path.name == _RECBOLE_FILE
    if has_header:
        with path.open(encoding="utf-8") as lines:
            header = lines.readline().rstrip("\n")
        if header != _RECBOLE_HEADER:
            raise DataError(f"{path}, line 1: the columns are {header!r}, expected {_RECBOLE_HEADER!r}")
    try:
        return np.loadtxt(path, dtype=_COLUMNS, delimiter="\t", skiprows=int(has_header), ndmin=1)
    except ValueError as error:
        raise DataError(f"{path}: {error}; expected user, item, rating and time, separated by tabs") from error


COMPONENT = MovieLens100K
