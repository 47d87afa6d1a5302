"""A table as read: its four columns, where each row stands in its file, and the way to Interactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pspns.data.columns import AskedColumns, Columns
from pspns.data.interactions import Floats, Ids, Interactions, Ints
from pspns.data.series import as_id_column, as_numbers, as_seconds, join_ids, number_ids
from pspns.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the user says about the file; None leaves it to be found out."""

    columns: AskedColumns | None = None
    """Role (user, item, rating, time) → a column's name, or its position counted from 0."""
    header: bool | None = None
    """Is the first line of a delimited file a header?"""


@dataclass(frozen=True)
class Table:
    """Columns named as messages call them, their values unchecked."""

    source: str  # the file's path, or the kind of frame; begins every message
    users: pl.Series
    items: pl.Series
    ratings: pl.Series | None
    times: pl.Series | None
    where: Callable[[int], str]  # row, from 0 → "line 12" or "row 12"
    facts: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls,
        source: str,
        columns: Columns,
        fetch: Callable[[int], pl.Series],
        where: Callable[[int], str],
        facts: tuple[str, ...] = (),
    ) -> Table:
        """`fetch` gives the column at a place."""

        def column(place: int) -> pl.Series:
            return fetch(place).alias(columns.labels[place])

        users = column(columns.user)
        if len(users) == 0:
            raise DataError(f"{source}: there are no rows; expected at least one interaction")
        return cls(
            source,
            users,
            column(columns.item),
            None if columns.rating is None else column(columns.rating),
            None if columns.time is None else column(columns.time),
            where,
            (*facts, *columns.facts()),
        )

    def checked_ids(self, column: pl.Series) -> pl.Series:
        ids = self._convert(as_id_column, column)
        self._refuse_nulls(ids, column, "expected an id in every row")
        return ids

    def rating_values(self) -> Floats | None:
        if self.ratings is None:
            return None
        values = self._convert(as_numbers, self.ratings)
        self._refuse_nulls(values, self.ratings, "expected a rating, a finite number such as 4 or 3.5")
        return values.to_numpy()

    def time_values(self) -> Floats | None:
        if self.times is None:
            return None
        values = self._convert(as_seconds, self.times)
        expected = "expected a time: in all rows a number, or in all a date such as 2024-05-31 18:30:00"
        self._refuse_nulls(values, self.times, expected)
        return values.to_numpy()

    def _convert(self, convert: Callable[[pl.Series], pl.Series], column: pl.Series) -> pl.Series:
        try:
            return convert(column)
        except DataError as error:
            raise DataError(f"{self.source}: {error}") from error

    def _refuse_nulls(self, values: pl.Series, column: pl.Series, expected: str) -> None:
        if values.null_count() > 0:
            row = int(values.is_null().arg_max() or 0)
            found = column[row]
            problem = "is empty" if found is None or found == "" else f"is {found!r}"
            raise DataError(f"{self.source}, {self.where(row)}: column {column.name} {problem}; {expected}")


@dataclass(frozen=True)
class NumberedRows:
    """The rows of one or several tables, their ids numbered together."""

    users: Ints  # [rows] places in user_ids
    items: Ints  # [rows]
    user_ids: Ids
    item_ids: Ids
    ratings: Floats | None  # [rows]
    times: Floats | None  # [rows]


def number_rows(tables: Sequence[Table]) -> NumberedRows:
    """All rows, table after table; ratings and times where every table has them."""
    user_ids, users = number_ids(join_ids([table.checked_ids(table.users) for table in tables]))
    item_ids, items = number_ids(join_ids([table.checked_ids(table.items) for table in tables]))
    ratings = _concatenate([table.rating_values() for table in tables])
    times = _concatenate([table.time_values() for table in tables])
    return NumberedRows(users, items, user_ids, item_ids, ratings, times)


def to_interactions(table: Table, min_rating: float | None) -> Interactions:
    """The table's distinct pairs; `min_rating` leaves out the rows rated lower."""
    rows = number_rows([table])
    try:
        return Interactions.from_numbers(
            rows.users,
            rows.items,
            rows.user_ids,
            rows.item_ids,
            ratings=rows.ratings,
            times=rows.times,
            min_rating=min_rating,
            facts=table.facts,
        )
    except DataError as error:
        raise DataError(f"{table.source}: {error}") from error


def row_number(row: int) -> str:
    return f"row {row + 1:,}"


def _concatenate(values: Sequence[Floats | None]) -> Floats | None:
    present = [part for part in values if part is not None]
    return np.concatenate(present) if len(present) == len(values) else None
