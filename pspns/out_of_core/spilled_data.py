"""Data from a file, or from the train file of a folder, to a matrix on disk and the ids of its rows and columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pspns.components import part_names
from pspns.data.arrays import holds_arrays
from pspns.data.files import find_format, read_file
from pspns.data.folder import open_parts, with_common_roles
from pspns.data.formats._text import exists
from pspns.data.gather import _Checked, _one_ahead, _refuse_odd_ids
from pspns.data.id_numbers import IdNumbers
from pspns.data.interactions import Ids, threshold_fact
from pspns.data.load import data_folder, find_in_data_folder, path_of
from pspns.data.settings import DataSettings
from pspns.data.split import Part
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError
from pspns.out_of_core.sorted_rows import SpilledRows
from pspns.out_of_core.spilled_matrix import SpilledMatrix

PAIRS_AT_ONCE = 1 << 22

Progress = Callable[[str], None]
"""Told often how far a stage is."""


@dataclass(frozen=True)
class TrainTable:
    """Where the rows of train are, not yet read."""

    table: Table
    made_by: str  # how train came about, in words


@dataclass(frozen=True)
class SpilledData:
    """Train as a matrix on disk; users and items are numbered as in memory, in the order of their ids."""

    matrix: SpilledMatrix
    user_ids: Ids  # [users]
    item_ids: Ids  # [items]
    made_by: str
    facts: tuple[str, ...]  # what reading found, merged or left out, in words

    def fingerprint(self) -> str:
        """That of the same data in memory: see `Split.fingerprint`."""
        digest = hashlib.sha256()
        for ids in (self.user_ids, self.item_ids):
            digest.update(repr(ids.tolist()).encode())
        digest.update(np.int64(len(self.matrix)).tobytes())
        n_users = self.matrix.shape[0]
        degrees = self.matrix.user_degrees
        for first in range(0, n_users, PAIRS_AT_ONCE // 64):
            users = np.arange(first, min(first + PAIRS_AT_ONCE // 64, n_users), dtype="<i8")
            digest.update(np.repeat(users, degrees[users]).tobytes())
        for first in range(0, len(self.matrix), PAIRS_AT_ONCE):
            items = self.matrix.items.read(first, min(first + PAIRS_AT_ONCE, len(self.matrix)))
            digest.update(items.astype("<i8").tobytes())
        nobody = np.int64(0).tobytes()
        digest.update(nobody + nobody)  # no validation pair, no test pair
        return digest.hexdigest()


def find_train(settings: DataSettings) -> TrainTable:
    """The table that `[data]` names, or the train part of the folder that it names."""
    given = [name for name in ("core", "min_user_pairs", "min_item_pairs") if getattr(settings, name) is not None]
    if given:
        raise SettingsError(
            f"{' and '.join(given)} cannot be set out of core: to leave users and items out, all pairs must be in "
            "memory; leave them out of the file"
        )
    source = settings.source or ""
    path = path_of(source)
    if not exists(path):
        if source in part_names("datasets"):
            raise SettingsError(
                f"'{source}' is a known data set, which is small enough to be loaded into memory; build without "
                "--out-of-core, or give a file"
            )
        path = find_in_data_folder(source, data_folder(settings.folder))
    how = Reading(
        columns=settings.columns,
        header=settings.header,
        separator=settings.separator,
        encoding=settings.encoding,
        time_format=settings.time_format,
    )
    if path.is_dir():
        parts = open_parts(path, how, format=settings.format)
        tables, facts = with_common_roles(list(parts.values()), settings.min_rating)
        train = tables[list(parts).index(Part.TRAIN)]
        made_by = f"as given in {path.resolve().name}: {Path(train.source).name}; other parts were not read"
        return TrainTable(replace(train, facts=(*train.facts, *facts)), made_by)
    if settings.format is None and path.suffix.lower() == ".npz" and holds_arrays(path):
        raise SettingsError(f"{path} holds data that were loaded before, so they fit: build without --out-of-core")
    return TrainTable(
        read_file(path, how, settings.format or find_format(path, settings.encoding)), "every row is train"
    )


def spill(train: TrainTable, scratch: Path, min_rating: float | None, progress: Progress) -> SpilledData:
    """Read every row once, and leave the distinct pairs in files of the folder `scratch`."""
    table = train.table
    if min_rating is not None and "rating" not in table.labels:
        raise DataError(f"{table.source}: min_rating is {min_rating:g}, but there is no rating column")
    users, items = IdNumbers(), IdNumbers()
    rows, ratings = SpilledRows(scratch), Counter[float]()
    check = _Checked(table)
    for piece in _one_ahead(table.pieces()):
        user_ids, item_ids = check.ids(piece, "user"), check.ids(piece, "item")
        if "rating" in table.labels:
            of_rows = check.ratings(piece)
            values, counts = np.unique(of_rows, return_counts=True)
            ratings.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            if min_rating is not None:
                user_ids, item_ids = user_ids.filter(of_rows >= min_rating), item_ids.filter(of_rows >= min_rating)
        rows.add(users.number(user_ids), items.number(item_ids))
        check.rows_before += piece.height
        progress(f"{check.rows_before:,} rows read")
    if check.rows_before == 0:
        raise DataError(f"{table.source}: there are no rows; expected at least one interaction")
    if rows.n_rows == 0:
        raise DataError(
            f"{table.source}: no row has a rating of at least {min_rating:g}: ratings run from {min(ratings):g} to "
            f"{max(ratings):g}; lower min_rating"
        )
    _refuse_odd_ids([table], "user", users)
    _refuse_odd_ids([table], "item", items)
    user_ids_in_order, user_places = users.in_order()
    item_ids_in_order, item_places = items.in_order()
    del users, items  # they are as large as all ids
    matrix = rows.sorted(user_places, item_places)
    facts = table.facts
    if ratings:
        facts = (*facts, threshold_fact(np.array(list(ratings)), np.array(list(ratings.values())), min_rating))
    if repeats := rows.n_rows - len(matrix):
        facts = (*facts, f"{repeats:,} repeated row{'s' if repeats > 1 else ''} merged")
    return SpilledData(matrix, user_ids_in_order, item_ids_in_order, train.made_by, facts)
