"""Data as one .npz of plain arrays: how they travel to machines that have numpy and torch but no table library."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pspns.components import find_part, part_name, part_names
from pspns.data.interactions import Ids, Interactions
from pspns.data.npz_files import check_npz
from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError, unknown_name

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
    if interactions.usual_split is not None:
        rule = {"name": part_name("splits", interactions.usual_split), **asdict(interactions.usual_split)}
        arrays["usual_split"] = np.array(json.dumps(rule))
    if isinstance(data, GivenSplit):
        arrays |= {"parts": data.parts, "source": np.array(data.source)}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def holds_arrays(path: Path) -> bool:
    """Is this what `write_arrays` writes, and not another kind of .npz?"""
    return {"format", "users", "items", "user_ids", "item_ids"} <= set(check_npz(path))


def read_arrays(path: Path) -> Interactions | GivenSplit:
    """What `write_arrays` wrote."""
    check_npz(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: is not a readable .npz file: {error}") from error
    if arrays.get("format") != FORMAT:
        raise DataError(f"{path}: was not written by pspns, or by another version; write it again with write_arrays")
    _check(arrays, path)
    interactions = Interactions(
        users=arrays["users"],
        items=arrays["items"],
        user_ids=_as_before(arrays["user_ids"]),
        item_ids=_as_before(arrays["item_ids"]),
        times=arrays.get("times"),
        facts=tuple(arrays["facts"].tolist()),
        usual_split=_as_split(str(arrays["usual_split"]), path) if "usual_split" in arrays else None,
    )
    if "parts" not in arrays:
        return interactions
    return GivenSplit(interactions, arrays["parts"], str(arrays["source"]))


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Nothing that is read later may point outside of what is there."""
    missing = {"users", "items", "user_ids", "item_ids", "facts"} - arrays.keys()
    if missing:
        raise DataError(f"{path}: the arrays {', '.join(sorted(missing))} are missing; write it again")
    pairs = [arrays[name] for name in ("users", "items", "times", "parts") if name in arrays]
    if any(array.shape != (len(pairs[0]),) for array in pairs):
        raise DataError(f"{path}: users, items, times and parts must be equally many; write it again")
    for name, ids in (("users", "user_ids"), ("items", "item_ids")):
        places = arrays[name]
        if places.dtype != np.int64 or arrays[ids].ndim != 1 or arrays[ids].dtype.kind not in "iuU":
            raise DataError(f"{path}: {name} or {ids} are not of the kind that pspns writes; write it again")
        if len(places) == 0 or places.min() < 0 or places.max() >= len(arrays[ids]):
            raise DataError(f"{path}: {name} point outside of the {len(arrays[ids]):,} {ids}; write it again")
    if not (np.diff(arrays["users"] * len(arrays["item_ids"]) + arrays["items"]) > 0).all():
        raise DataError(f"{path}: pairs are not in order, or repeat; write it again")
    if "parts" in arrays and not np.isin(arrays["parts"], list(Part)).all():
        raise DataError(f"{path}: parts are numbers other than {', '.join(str(int(p)) for p in Part)}; write it again")


def _as_split(text: str, path: Path) -> Any:
    try:
        settings = json.loads(text)
        name = settings.pop("name")
        if name not in part_names("splits"):  # never a module's name: reading data must not import what they name
            raise unknown_name("split", name, part_names("splits"))
        return find_part("splits", name)(**settings)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{path}: usual_split is {text[:200]!r}, which is no split; write it again") from error


def _storable(ids: Ids) -> Ids:
    if ids.dtype != object:
        return ids
    # A fixed-width text array drops NUL at the end of a text; a byte after each keeps it.
    return np.array([f"{text}|" for text in ids.tolist()], dtype=np.str_)


def _as_before(ids: Ids) -> Ids:
    if ids.dtype.kind != "U":
        return ids
    return np.array([text[:-1] for text in ids.tolist()], dtype=object)
