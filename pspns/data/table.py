"""A table that is read piece by piece: its four columns, and where each row stands in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from pspns.data.columns import ROLES, AskedColumns, Columns


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the user says about the file; None leaves it to be found out."""

    columns: AskedColumns | None = None
    """Role (user, item, rating, time) → a column's name, or its position counted from 0."""
    header: bool | None = None
    """Is the first line of a delimited file a header?"""
    separator: str | None = None
    """What stands between the cells of a delimited file."""
    encoding: str | None = None
    """How a text file writes its characters; unset: UTF-8."""
    time_format: str | None = None
    """How times are written, such as %d/%m/%Y."""


@dataclass(frozen=True)
class Table:
    """Values as they stand in the file, unchecked."""

    source: str  # the file's path, or the kind of frame; begins every message
    labels: dict[str, str]  # role → the column as messages call it; only roles that exist
    pieces: Callable[[], Iterator[pl.DataFrame]]  # from the beginning, each time; columns are named by their roles
    where: Callable[[int], str]  # row, from 0 → "line 12" or "row 12"
    time_format: str | None = None
    facts: tuple[str, ...] = ()

    @classmethod
    def from_columns(
        cls,
        source: str,
        columns: Columns,
        frames: Callable[[], Iterator[pl.DataFrame]],
        where: Callable[[int], str],
        time_format: str | None = None,
        facts: tuple[str, ...] = (),
    ) -> Table:
        """`frames` hold the used columns, from left to right."""
        role_of = {place: role for role in ROLES if (place := columns.place(role)) is not None}
        roles = [role_of[place] for place in columns.used]

        def pieces() -> Iterator[pl.DataFrame]:
            for frame in frames():
                # By place, not by name: names in a file may repeat.
                yield pl.DataFrame([series.alias(role) for series, role in zip(frame, roles, strict=True)])

        labels = {role: columns.labels[place] for place, role in role_of.items()}
        return cls(source, labels, pieces, where, time_format, (*facts, *columns.facts()))


def row_number(row: int) -> str:
    return f"row {row + 1:,}"
