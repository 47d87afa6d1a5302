"""Data from wherever they are: a file, a folder, a known data set's name, a frame or a matrix."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy import sparse

from pspns.components import find_part, part_names
from pspns.data.columns import AskedColumns
from pspns.data.files import find_format, known_suffixes, read_file
from pspns.data.folder import read_folder
from pspns.data.formats._text import unpacked_name
from pspns.data.frames import from_frame, is_frame
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.data.table import Reading, to_interactions
from pspns.errors import DataError, SettingsError


def load(
    data: Any,
    *,
    format: str | None = None,
    columns: AskedColumns | None = None,
    header: bool | None = None,
    min_rating: float | None = None,
    folder: str | Path | None = None,
) -> Interactions | GivenSplit:
    """Read `data`: the path of a file or folder, a data set's name, a frame, a matrix, or data loaded before.

    A text is a path if something lies there, else the name of a known data set, else the name of a file or
    folder in the data folder (`folder`, or the environment variable PSPNS_DATA).

    format: delimited, parquet or lines; found from the suffix and the content unless set.
    columns: role (user, item, rating, time) → a column's name, or its position counted from 0.
    header: whether the first line of a delimited file is a header.
    min_rating: rows rated lower are left out.

    >>> load(sparse.coo_array([[1, 0], [0, 1]])).items.tolist()
    [0, 1]
    """
    options = {"format": format, "columns": columns, "header": header, "min_rating": min_rating}
    if isinstance(data, Interactions | GivenSplit):
        _refuse(options, f"{type(data).__name__} already loaded")
        return data
    if sparse.issparse(data):
        _refuse(options, "a matrix")
        return Interactions.from_matrix(data)
    if is_frame(data):
        _refuse({"format": format, "header": header}, "a frame")
        return from_frame(data, columns=columns, min_rating=min_rating)
    if not isinstance(data, str | Path):
        raise DataError(
            f"cannot read data from {type(data).__name__}; expected a path, a data set's name, "
            f"a polars, pandas or Arrow frame, or a scipy sparse matrix"
        )

    path = Path(data).expanduser()
    if not path.exists():
        data_folder = _data_folder(folder)
        name = str(data)
        if name in part_names("datasets"):
            _refuse(options, f"the known data set '{name}'")
            known = find_part("datasets", name)().load(data_folder)
            assert isinstance(known, Interactions | GivenSplit)
            return known
        path = _find_in_data_folder(name, data_folder)
    how = Reading(columns=columns, header=header)
    if path.is_dir():
        return read_folder(path, how, format=format, min_rating=min_rating)
    return to_interactions(read_file(path, how, format or find_format(path)), min_rating)


def _refuse(options: Mapping[str, object], what: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SettingsError(
            f"{' and '.join(given)} cannot be set for {what}; leave {'it' if len(given) == 1 else 'them'} out"
        )


def _data_folder(folder: str | Path | None) -> Path | None:
    chosen = folder or os.environ.get("PSPNS_DATA")
    return None if not chosen else Path(chosen).expanduser()


def _find_in_data_folder(name: str, data_folder: Path | None) -> Path:
    inside = [] if data_folder is None or not data_folder.is_dir() else sorted(data_folder.iterdir())
    known = {path: _stem(path) for path in inside if path.is_dir() or _has_known_suffix(path)}
    found = [path for path, stem in known.items() if stem == name]
    if len(found) > 1:
        raise DataError(f"'{name}' could be {' or '.join(map(str, found))}; give the path")
    if found:
        return found[0]
    names = sorted({*part_names("datasets"), *known.values()})
    close = difflib.get_close_matches(name, names, n=1)
    where = "" if data_folder is None else f" here or in the data folder {data_folder}"
    if data_folder is not None and not data_folder.is_dir():
        where += ", which does not exist"
    raise DataError(
        f"no file, folder or data set '{name}'{where}; known data sets: {', '.join(names) or 'none'}"
        + (f" (did you mean '{close[0]}'?)" if close else "")
    )


def _has_known_suffix(path: Path) -> bool:
    return unpacked_name(path).suffix.lower() in known_suffixes()


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else unpacked_name(path).stem
