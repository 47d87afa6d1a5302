"""Data as one .npz of plain arrays: how they travel to machines that have numpy and torch but no table library."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Ids, Interactions
from pspns.data.split import GivenSplit
from pspns.errors import DataError

FORMAT = 1


def write_arrays(data: Interactions | GivenSplit, path: Path) -> None:
    """Everything `run` needs of the data, in a file that numpy alone can read."""
    interactions = data.interactions if isinstance(data, GivenSplit) else data
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT),
        "users": interactions.users,
        "items": interactions.items,
        "user_ids": _storable(interactions.user_ids),
        "item_ids": _storable(interactions.item_ids),
        "facts": np.array(interactions.facts, dtype=np.str_),
    }
    if interactions.times is not None:
        arrays["times"] = interactions.times
    if isinstance(data, GivenSplit):
        arrays |= {"parts": data.parts, "source": np.array(data.source)}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path) -> Interactions | GivenSplit:
    """What `write_arrays` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"{path}: is not a readable .npz file: {error}") from error
    if arrays.get("format") != FORMAT:
        raise DataError(f"{path}: was not written by pspns, or by another version; write it again with write_arrays")
    interactions = Interactions(
        users=arrays["users"],
        items=arrays["items"],
        user_ids=_as_before(arrays["user_ids"]),
        item_ids=_as_before(arrays["item_ids"]),
        times=arrays.get("times"),
        facts=tuple(arrays["facts"].tolist()),
    )
    if "parts" not in arrays:
        return interactions
    return GivenSplit(interactions, arrays["parts"], str(arrays["source"]))


def _storable(ids: Ids) -> Ids:
    if ids.dtype != object:
        return ids
    # A fixed-width text array drops NUL at the end of a text; a byte after each keeps it.
    return np.array([f"{text}|" for text in ids.tolist()], dtype=np.str_)


def _as_before(ids: Ids) -> Ids:
    if ids.dtype.kind != "U":
        return ids
    return np.array([text[:-1] for text in ids.tolist()], dtype=object)
