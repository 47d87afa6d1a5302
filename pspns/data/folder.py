"""A folder of train, validation and test files to the split that it fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pspns.data.files import find_format, known_suffixes, read_file
from pspns.data.formats._text import bare_name, unpacked_name
from pspns.data.gather import Collected, Gathered, count_facts, gather
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Part
from pspns.data.table import Reading, Table
from pspns.errors import DataError
from pspns.sorted_keys import are_in, distinct

_STEMS = {
    Part.TRAIN: ("train",),
    Part.VALID: ("valid", "validation", "val"),
    Part.TEST: ("test",),
}


def read_folder(
    folder: Path, how: Reading, *, format: str | None = None, min_rating: float | None = None
) -> GivenSplit:
    """The split in a folder with files train, test and perhaps valid (or validation, or val)."""
    tables = open_parts(folder, how, format=format)
    whole, role_facts = with_common_roles(list(tables.values()), min_rating)
    gathered = gather(whole, min_rating=min_rating)
    interactions, parts, late_facts = _join(dict(zip(tables, gathered.tables, strict=True)), gathered)
    facts = (
        *_joint_facts(tables),
        *role_facts,
        *gathered.time_facts,
        *late_facts,
        *count_facts(gathered.tables, min_rating),
    )
    names = ", ".join(Path(table.source).name for table in tables.values())
    return GivenSplit(replace(interactions, facts=facts), parts, f"as given in {folder.resolve().name}: {names}")


def open_parts(folder: Path, how: Reading, *, format: str | None = None) -> dict[Part, Table]:
    """The tables of a folder's parts, not yet read."""
    paths = _find_parts(folder, any_suffix=format is not None)
    formats = _formats(list(paths.values()), format, how.encoding)
    return {part: read_file(path, how, formats[path]) for part, path in paths.items()}


def _join(tables: dict[Part, Collected], ids: Gathered) -> tuple[Interactions, NDArray[np.int8], tuple[str, ...]]:
    """The pairs of all parts, each in the earliest part that has it, and how many were dropped from a later one."""
    n_items = len(ids.item_ids)
    seen = np.empty(0, np.int64)
    kept: dict[Part, NDArray[np.bool_]] = {}
    facts: list[str] = []
    for part, table in tables.items():
        keys = table.users * n_items + table.items
        kept[part] = ~are_in(keys, seen)
        seen = distinct(np.concatenate((seen, keys)))
        if not kept[part].any():
            facts.append(f"{part.name.lower()}: no pair is left")
        if n_late := int((~kept[part]).sum()):
            facts.append(
                f"{part.name.lower()}: {n_late:,} pair{'s' if n_late > 1 else ''} dropped, also in an earlier part"
            )
    users = np.concatenate([table.users[kept[part]] for part, table in tables.items()])
    items = np.concatenate([table.items[kept[part]] for part, table in tables.items()])
    parts = np.concatenate([np.full(int(kept[part].sum()), part, np.int8) for part in tables])
    order = np.argsort(users * n_items + items)
    times = [table.times[kept[part]] for part, table in tables.items() if table.times is not None]
    joined = np.concatenate(times)[order] if times else None  # every part has them, or none
    pairs = Interactions(users[order], items[order], ids.user_ids, ids.item_ids, joined)
    return pairs.without_unused_ids(), parts[order], tuple(facts)


def _find_parts(folder: Path, *, any_suffix: bool) -> dict[Part, Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    there = ", ".join(path.name for path in files[:20]) or "no files"
    there += f" and {len(files) - 20} more" if len(files) > 20 else ""
    found: dict[Part, Path] = {}
    for part, stems in _STEMS.items():
        candidates = [
            path
            for path in files
            if _last_word(bare_name(path).stem) in stems
            and (any_suffix or path.suffix.lower() == ".zip" or bare_name(path).suffix.lower() in known_suffixes())
        ]
        exact = [path for path in candidates if bare_name(path).stem.lower() in stems]
        candidates = exact or candidates
        if len(candidates) > 1:
            names = " and ".join(path.name for path in candidates)
            raise DataError(f"{folder}: {names} could all be the {part.name.lower()} part; keep one of them here")
        if candidates:
            found[part] = candidates[0]
        elif part != Part.VALID:
            raise DataError(
                f"{folder}: no {part.name.lower()} file; the folder holds: {there}. Expected train, test "
                f"and perhaps valid, each ending in one of {', '.join(known_suffixes())} (with --format, in anything); "
                f"to split a single file, give the file itself"
            )
    return found


def _last_word(stem: str) -> str:
    """What NCF and RecBole call a part: the last word of `ml-1m.train`."""
    return stem.lower().rpartition(".")[2]


def _formats(paths: Sequence[Path], format: str | None, encoding: str | None) -> dict[Path, str]:
    formats = {path: format or find_format(path, encoding) for path in paths}
    # A short file of lines can look like a table (one item for every user); its siblings tell.
    if "lines" in formats.values() and format is None:
        texts = [path for path in paths if unpacked_name(path).suffix.lower() == ".txt"]
        formats.update(dict.fromkeys(texts, "lines"))
    return formats


def with_common_roles(tables: list[Table], min_rating: float | None) -> tuple[list[Table], tuple[str, ...]]:
    """Ratings and times count only where every part has them; ratings that are asked for must be everywhere."""
    facts: tuple[str, ...] = ()
    for role in ("time",) if min_rating is not None else ("rating", "time"):
        if 0 < sum(role in table.labels for table in tables) < len(tables):
            tables = [_without_role(table, role) for table in tables]
            facts = (*facts, f"{role}s ignored: not every part has them")
    return tables, facts


def _without_role(table: Table, role: str) -> Table:
    return replace(table, labels={other: label for other, label in table.labels.items() if other != role})


def _joint_facts(tables: dict[Part, Table]) -> tuple[str, ...]:
    """What holds for all files once, the rest with the file's name."""
    everywhere = [fact for fact in tables[Part.TRAIN].facts if all(fact in table.facts for table in tables.values())]
    special = [
        f"{Path(table.source).name}: {fact}"
        for table in tables.values()
        for fact in table.facts
        if fact not in everywhere
    ]
    return (*everywhere, *special)
