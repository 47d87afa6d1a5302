"""A folder of train, validation and test files to the split that it fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pspns.data.files import find_format, known_suffixes, read_file
from pspns.data.formats._text import unpacked_name
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Part
from pspns.data.table import NumberedRows, Reading, Table, number_rows
from pspns.errors import DataError

_STEMS = {
    Part.TRAIN: ("train",),
    Part.VALID: ("valid", "validation", "val"),
    Part.TEST: ("test",),
}


def read_folder(
    folder: Path, how: Reading, *, format: str | None = None, min_rating: float | None = None
) -> GivenSplit:
    """The split in a folder with files train, test and perhaps valid (or validation, or val)."""
    paths = _find_parts(folder, any_suffix=format is not None)
    formats = _formats(list(paths.values()), format)
    tables = {part: read_file(path, how, formats[path]) for part, path in paths.items()}
    whole, role_facts = _with_common_roles(list(tables.values()), min_rating)
    rows = number_rows(whole)
    row_parts = np.concatenate([np.full(len(table.users), part, np.int8) for part, table in tables.items()])
    is_late, pair_parts = _parts_of_pairs(rows, row_parts, min_rating)
    kept = ~is_late
    try:
        interactions = Interactions.from_numbers(
            rows.users[kept],
            rows.items[kept],
            rows.user_ids,
            rows.item_ids,
            ratings=None if rows.ratings is None else rows.ratings[kept],
            times=None if rows.times is None else rows.times[kept],
            min_rating=min_rating,
            facts=(*_joint_facts(paths, tables), *role_facts, *_late_facts(row_parts[is_late])),
        )
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    source = f"as given in {folder.resolve().name}: {', '.join(path.name for path in paths.values())}"
    return GivenSplit(interactions, pair_parts, source)


def _find_parts(folder: Path, *, any_suffix: bool) -> dict[Part, Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    there = ", ".join(path.name for path in files[:20]) or "no files"
    there += f" and {len(files) - 20} more" if len(files) > 20 else ""
    found: dict[Part, Path] = {}
    for part, stems in _STEMS.items():
        candidates = [
            path
            for path in files
            if unpacked_name(path).stem.lower() in stems
            and (any_suffix or unpacked_name(path).suffix.lower() in known_suffixes())
        ]
        if len(candidates) > 1:
            names = " and ".join(path.name for path in candidates)
            raise DataError(f"{folder}: {names} could all be the {part.name.lower()} part; keep one of them here")
        if candidates:
            found[part] = candidates[0]
        elif part != Part.VALID:
            raise DataError(
                f"{folder}: no {part.name.lower()} file; the folder holds: {there}. Expected train, test "
                f"and perhaps valid, each ending in one of {', '.join(known_suffixes())}; "
                f"to split a single file, give the file itself"
            )
    return found


def _formats(paths: Sequence[Path], format: str | None) -> dict[Path, str]:
    formats = {path: format or find_format(path) for path in paths}
    # A short file of lines can look like a table (one item for every user); its siblings tell.
    if "lines" in formats.values() and format is None:
        texts = [path for path in paths if unpacked_name(path).suffix.lower() == ".txt"]
        formats.update(dict.fromkeys(texts, "lines"))
    return formats


def _with_common_roles(tables: list[Table], min_rating: float | None) -> tuple[list[Table], tuple[str, ...]]:
    """Ratings and times count only where every part has them."""
    facts: tuple[str, ...] = ()
    without_rating = [table for table in tables if table.ratings is None]
    without_time = [table for table in tables if table.times is None]
    if without_rating and min_rating is not None:
        raise DataError(f"{without_rating[0].source}: min_rating is {min_rating:g}, but there is no rating column")
    if 0 < len(without_rating) < len(tables):
        tables = [replace(table, ratings=None) for table in tables]
        facts = (*facts, "ratings ignored: not every part has them")
    if 0 < len(without_time) < len(tables):
        tables = [replace(table, times=None) for table in tables]
        facts = (*facts, "times ignored: not every part has them")
    return tables, facts


def _parts_of_pairs(
    rows: NumberedRows, row_parts: NDArray[np.int8], min_rating: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Which rows repeat a pair of an earlier part; the part of each pair, in the order of Interactions."""
    counts = np.ones(len(row_parts), dtype=bool)
    if rows.ratings is not None and min_rating is not None:
        counts = rows.ratings >= min_rating
    keys = rows.users * len(rows.item_ids) + rows.items
    _, pairs = np.unique(keys[counts], return_inverse=True)
    pair_parts = np.full(pairs.max(initial=-1) + 1, max(Part), dtype=np.int8)
    np.minimum.at(pair_parts, pairs, row_parts[counts])
    is_late = np.zeros(len(row_parts), dtype=bool)
    is_late[counts] = row_parts[counts] > pair_parts[pairs]
    return is_late, pair_parts


def _late_facts(late_parts: NDArray[np.int8]) -> tuple[str, ...]:
    return tuple(
        f"{part.name.lower()}: {n_late:,} row{'s' if n_late > 1 else ''} dropped, pair in an earlier part"
        for part in Part
        if (n_late := int((late_parts == part).sum()))
    )


def _joint_facts(paths: dict[Part, Path], tables: dict[Part, Table]) -> tuple[str, ...]:
    """What holds for all files once, the rest with the file's name."""
    everywhere = [fact for fact in tables[Part.TRAIN].facts if all(fact in table.facts for table in tables.values())]
    special = [
        f"{paths[part].name}: {fact}"
        for part, table in tables.items()
        for fact in table.facts
        if fact not in everywhere
    ]
    return (*everywhere, *special)
