"""What findings are made from, and their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from pspns.data.gather import Collected, Gathered
from pspns.data.interactions import Ids, Ints
from pspns.data.split import Part

FEW_ROWS = 20  # below it, chance alone makes many things look odd

# What programs write where there is no id.
_MISSING = [
    "nan", "null", "(null)", "none", "nil", "na", "n/a", "#n/a", "<na>", "nat", "undefined", "unknown", "missing",
    "anonymous", "guest", "?", "-", "-1", "\\n",
]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    severity: Literal["warning", "note"]  # likely a mistake; or good to know
    what: str
    advice: str


@dataclass(frozen=True)
class Side:
    """The users, or the items, of all tables."""

    role: str
    label: str
    ids: pl.Series  # whole numbers or text
    rows: Ints  # [ids]
    pairs: Ints  # [ids]

    @classmethod
    def of(cls, role: str, label: str, ids: Ids, tables: Sequence[tuple[Ints, Ints]]) -> Side:
        """`tables`: the rows of each id, and the places of all pairs."""
        series = pl.Series(ids.tolist(), dtype=pl.String) if ids.dtype == object else pl.Series(ids)
        rows, pairs = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
        for rows_of_id, places in tables:
            rows += rows_of_id
            pairs += np.bincount(places, minlength=len(ids))
        return cls(role, label, series, rows, pairs)

    @cached_property
    def looks_missing(self) -> pl.Series:
        return self.ids.cast(pl.String).str.strip_chars().str.to_lowercase().is_in(_MISSING)


@dataclass(frozen=True)
class Data:
    gathered: Gathered
    tables: dict[Part, Collected]
    labels: Mapping[str, str]
    now: float
    min_rating: float | None

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        users = [(table.rows_of_user, table.users) for table in self.gathered.tables]
        items = [(table.rows_of_item, table.items) for table in self.gathered.tables]
        return (
            Side.of("user", self.labels["user"], self.gathered.user_ids, users),
            Side.of("item", self.labels["item"], self.gathered.item_ids, items),
        )

    @cached_property
    def n_rows(self) -> int:
        return sum(table.n_rows for table in self.gathered.tables)

    @cached_property
    def n_pairs(self) -> int:
        return sum(len(table.users) for table in self.gathered.tables)


def share(n: int, total: int) -> str:
    return f"{n:,} of {total:,} ({percent(n / total)})"


def counted(n: int, noun: str) -> str:
    """How many of what.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def percent(share: float) -> str:
    """A share to two digits, and none that seems to be nothing or all when it is not.

    >>> percent(0.5), percent(0.123), percent(0.00004), percent(0.9999)
    ('50 %', '12 %', '0.004 %', 'nearly 100 %')
    """
    shown = f"{100 * share:.2g}"
    return "nearly 100 %" if shown == "1e+02" and share < 1 else f"{float(shown):g} %"


def shown(ids: pl.Series) -> str:
    return ", ".join(repr(value[:40] if isinstance(value, str) else value) for value in ids.head(3))
