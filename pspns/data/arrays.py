"""Data as one .npz of plain arrays: how they travel to machines that have numpy and torch but no table library."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pspns.components import find_part, part_name, part_names
from pspns.data.interactions import Ids, Interactions, order_ids
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
    if not np.array_equal(arrays.get("format", 0), FORMAT):
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
    """What `write_arrays` never writes is refused: nothing read later may point outside of what is there."""

    def refuse(what: str) -> NoReturn:
        raise DataError(f"{path}: {what}; write it again")

    needed = {"users", "items", "user_ids", "item_ids", "facts", *(["source"] if "parts" in arrays else [])}
    if missing := sorted(needed - arrays.keys()):
        refuse(f"the array {missing[0]} is missing")
    for name, array in arrays.items():
        if name in _KINDS and (array.dtype.kind not in _KINDS[name][0] or array.ndim != _KINDS[name][1]):
            refuse(f"{name} is {array.dtype} of {array.ndim} dimensions, which pspns does not write")
    users, items = arrays["users"], arrays["items"]
    if any(len(arrays[name]) != len(users) for name in ("items", "times", "parts") if name in arrays):
        refuse("users, items, times and parts must be equally many")
    if len(users) == 0:
        refuse("there is no pair")
    for name in ("user", "item"):
        places, ids = arrays[f"{name}s"], arrays[f"{name}_ids"]
        if places.dtype != np.int64 or places.min() < 0 or places.max() >= len(ids):
            refuse(f"{name}s point outside of the {len(ids):,} {name}_ids")
        if not np.array_equal(order_ids(np.unique(_as_before(ids))), _as_before(ids)):
            refuse(f"{name}_ids are not in order, or repeat")
    if not (np.diff(users * len(arrays["item_ids"]) + items) > 0).all():
        refuse("pairs are not in order, or repeat")
    if "times" in arrays and not np.isfinite(arrays["times"]).all():
        refuse("times are not all finite")
    if "parts" in arrays and not (set(np.unique(arrays["parts"]).tolist()) <= set(Part) and 0 in arrays["parts"]):
        refuse(f"parts must be {', '.join(f'{part.value} ({part.name.lower()})' for part in Part)}, and some train")


# Array → the kinds of its numbers or text, as numpy calls them, and its dimensions.
_KINDS = {
    "users": ("i", 1),
    "items": ("i", 1),
    "user_ids": ("iuU", 1),
    "item_ids": ("iuU", 1),
    "times": ("f", 1),
    "parts": ("i", 1),
    "facts": ("U", 1),
    "source": ("U", 0),
    "usual_split": ("U", 0),
}


def _as_split(text: str, path: Path) -> Any:
    try:
        settings = json.loads(text)
        name = settings.pop("name")
        if name not in part_names("splits"):  # never a module's name: reading data must not import what they name
            raise unknown_name("split", name, part_names("splits"))
        return find_part("splits", name)(**settings)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
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
