"""Data from wherever they are: a file, a folder, a known data set's name, a frame or a matrix."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy import sparse

from pspns.components import find_part, part_names
from pspns.data.arrays import holds_arrays, read_arrays
from pspns.data.columns import AskedColumns
from pspns.data.files import find_format, known_suffixes, read_file
from pspns.data.folder import read_folder
from pspns.data.formats._text import bare_name, exists
from pspns.data.frames import from_frame, is_frame
from pspns.data.frequency import leave_out_rare
from pspns.data.gather import to_interactions
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.data.table import Reading
from pspns.errors import DataError, SettingsError


def load(
    data: Any,
    *,
    format: str | None = None,
    columns: AskedColumns | None = None,
    header: bool | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    min_rating: float | None = None,
    min_user_pairs: int | None = None,
    min_item_pairs: int | None = None,
    core: int | None = None,
    folder: str | Path | None = None,
) -> Interactions | GivenSplit:
    """Read `data`: the path of a file or folder, a data set's name, a frame, a matrix, or data loaded before.

    A text is a path if something lies there, else the name of a known data set, else the name of a file or
    folder in the data folder (`folder`, or the environment variable PSPNS_DATA).

    format: one of `format_names`; found from the suffix and the content unless set.
    columns: role (user, item, rating, time) → a column's name, or its position counted from 0.
    header: whether the first line of a delimited file is a header.
    separator: what stands between the cells of a delimited file, by name (tab) or as it is.
    encoding: how a text file writes its characters; UTF-8 unless set.
    time_format: how times are written, such as %d/%m/%Y.
    min_rating: rows rated lower are left out.
    min_user_pairs, min_item_pairs: users and items with fewer pairs are left out, until none is left.
    core: both at once.

    >>> load(sparse.coo_array([[1, 0], [0, 1]])).items.tolist()
    [0, 1]
    """
    _check_types(columns, min_rating)
    how = Reading(columns=columns, header=header, separator=separator, encoding=encoding, time_format=time_format)
    found = _read(data, how, format, min_rating, folder)
    return _without_rare(found, min_user_pairs, min_item_pairs, core)


def _read(
    data: Any, how: Reading, format: str | None, min_rating: float | None, folder: str | Path | None
) -> Interactions | GivenSplit:
    options = {"format": format, **vars(how), "min_rating": min_rating}
    if isinstance(data, Interactions | GivenSplit):
        _refuse(options, f"{type(data).__name__} already loaded")
        return data
    if sparse.issparse(data):
        _refuse(options, "a matrix")
        return Interactions.from_matrix(data)
    if is_frame(data):
        allowed = ("columns", "time_format", "min_rating")
        _refuse({name: value for name, value in options.items() if name not in allowed}, "a frame")
        return from_frame(data, columns=how.columns, min_rating=min_rating, time_format=how.time_format)
    if not isinstance(data, str | Path):
        raise DataError(
            f"cannot read data from {type(data).__name__}; expected a path, a data set's name, "
            f"a polars, pandas or Arrow frame, or a scipy sparse matrix"
        )

    path = path_of(data)
    if not exists(path):
        place, name = data_folder(folder), str(data)
        if name in part_names("datasets"):
            _refuse(options, f"the known data set '{name}'")
            known = find_part("datasets", name)().load(place)
            assert isinstance(known, Interactions | GivenSplit)
            return known
        path = find_in_data_folder(name, place)
    if path.is_dir():
        return read_folder(path, how, format=format, min_rating=min_rating)
    if format is None and path.suffix.lower() == ".npz" and holds_arrays(path):
        _refuse(options, f"{path}, which holds data that were loaded before")
        return read_arrays(path)
    return to_interactions(read_file(path, how, format or find_format(path, how.encoding)), min_rating)


def _without_rare(
    data: Interactions | GivenSplit, min_user_pairs: int | None, min_item_pairs: int | None, core: int | None
) -> Interactions | GivenSplit:
    if core is not None and (min_user_pairs is not None or min_item_pairs is not None):
        raise SettingsError("core sets min_user_pairs and min_item_pairs both; give either it or them")
    if core is None and min_user_pairs is None and min_item_pairs is None:
        return data
    if isinstance(data, GivenSplit):
        raise SettingsError(
            "core, min_user_pairs and min_item_pairs cannot be set where the parts are given: leaving pairs out would "
            "make another split of them; give the pairs as one file"
        )
    least_user, least_item = (_first(core, least) for least in (min_user_pairs, min_item_pairs))
    return leave_out_rare(data, min_user_pairs=least_user, min_item_pairs=least_item)


def _check_types(columns: object, min_rating: object) -> None:
    """What the command line has checked before, and Python has not."""
    if columns is not None and not isinstance(columns, Mapping):
        raise SettingsError(f"columns must be roles with their columns, such as {{'user': 'visitor'}}, got {columns!r}")
    for role, column in columns.items() if isinstance(columns, Mapping) else ():
        if not (column is None or isinstance(column, str | int)):
            raise SettingsError(f"columns: {role} must be a column's name or its position, got {column!r}")
    if min_rating is not None and not (isinstance(min_rating, int | float) and math.isfinite(min_rating)):
        raise SettingsError(f"min_rating must be a finite number, got {min_rating!r}")


def path_of(text: str | Path) -> Path:
    """A path as users write it."""
    if not str(text):
        raise DataError("the name of the data is empty; expected a path or a data set's name")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # somebody's home who does not exist
        raise DataError(f"{text}: {error}; give the path in full") from error


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 1)


def _refuse(options: Mapping[str, object], what: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SettingsError(
            f"{' and '.join(given)} cannot be set for {what}; leave {'it' if len(given) == 1 else 'them'} out"
        )


def data_folder(folder: str | Path | None) -> Path | None:
    """Where data sets lie on this machine, if anywhere: as told, or as PSPNS_DATA says."""
    chosen = folder or os.environ.get("PSPNS_DATA")
    return None if not chosen else path_of(chosen)


def find_in_data_folder(name: str, place: Path | None) -> Path:
    """The file or folder of this name in the data folder."""
    inside = [] if place is None or not place.is_dir() else sorted(place.iterdir())
    known = {path: _stem(path) for path in inside if path.is_dir() or _has_known_suffix(path)}
    found = [path for path, stem in known.items() if stem == name]
    if not found and place is not None and exists(place / name):
        return place / name  # a place inside one of them, such as ml-1m/by-user
    if len(found) > 1:
        raise DataError(f"'{name}' could be {' or '.join(map(str, found))}; give the path")
    if found:
        return found[0]
    names = sorted({*part_names("datasets"), *known.values()})
    close = difflib.get_close_matches(name, names, n=1)
    where = "" if place is None else f" here or in the data folder {place}"
    if place is not None and not place.is_dir():
        where += ", which does not exist"
    raise DataError(
        f"no file, folder or data set '{name}'{where}; known data sets: {', '.join(names) or 'none'}"
        + (f" (did you mean '{close[0]}'?)" if close else "")
    )


def _has_known_suffix(path: Path) -> bool:
    return path.suffix.lower() == ".zip" or bare_name(path).suffix.lower() in known_suffixes()


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else bare_name(path).stem
