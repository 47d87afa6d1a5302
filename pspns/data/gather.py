"""Tables to distinct pairs, read once from begin to end: memory follows the pairs and ids, not the rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import polars as pl

from pspns.data.distinct_pairs import DistinctPairs
from pspns.data.id_numbers import Codes, IdNumbers
from pspns.data.interactions import Floats, Ids, Interactions, Ints, threshold_fact
from pspns.data.series import as_id_column, as_numbers
from pspns.data.table import Table
from pspns.data.times import TimeForm, find_time_form, find_unit
from pspns.errors import DataError

LONGEST_ID = 4096  # characters; longer ones are text that was taken for an id

_MERGE_AFTER_RATINGS = 1_000_000  # distinct ones of single pieces, that wait until they are counted together

_Thing = TypeVar("_Thing")


@dataclass(frozen=True)
class Collected:
    """What one table held: distinct pairs, sorted by user, then item."""

    users: Ints  # [pairs] places in Gathered.user_ids
    items: Ints  # [pairs]
    times: Floats | None  # [pairs] the earliest of each
    n_rows: int  # rows that count
    n_low: int  # rows left out: rated below min_rating
    ratings: tuple[Floats, Ints] | None  # every distinct rating and its rows, those left out included
    rows_of_user: Ints  # [users] rows that count
    rows_of_item: Ints  # [items]


@dataclass(frozen=True)
class Gathered:
    """Several tables, their ids numbered together."""

    user_ids: Ids  # in the order of `order_ids`
    item_ids: Ids
    tables: list[Collected]
    time_facts: tuple[str, ...] = ()


def gather(tables: Sequence[Table], *, min_rating: float | None = None) -> Gathered:
    """Every row of every table, checked; ratings and times must be there in all of them or are left out."""
    for table in tables:
        if min_rating is not None and "rating" not in table.labels:
            raise DataError(f"{table.source}: min_rating is {min_rating:g}, but there is no rating column")
    users, items = IdNumbers(), IdNumbers()
    with_times = all("time" in table.labels for table in tables)
    merged = [_read(table, users, items, min_rating, with_times) for table in tables]
    if not any(pairs.n_rows for pairs in merged):
        values = np.concatenate([pairs.ratings[0] for pairs in merged if pairs.ratings is not None])
        sources = ", ".join(table.source for table in tables)
        raise DataError(
            f"{sources}: no row has a rating of at least {min_rating:g}: ratings run from {values.min():g} to "
            f"{values.max():g}; lower min_rating"
        )
    _refuse_odd_ids(tables, "user", users)
    _refuse_odd_ids(tables, "item", items)
    user_ids, user_places = users.in_order()
    item_ids, item_places = items.in_order()
    del users, items  # they are as large as all ids
    collected = [pairs.in_places(user_places, item_places) for pairs in merged]
    times, facts = _in_seconds([pairs.times for pairs in collected], [pairs.is_unit_known for pairs in merged])
    in_seconds = [replace(pairs, times=values) for pairs, values in zip(collected, times, strict=True)]
    return Gathered(user_ids, item_ids, in_seconds, facts)


def to_interactions(table: Table, min_rating: float | None = None) -> Interactions:
    """The table's distinct pairs; `min_rating` leaves out the rows rated lower."""
    gathered = gather([table], min_rating=min_rating)
    (pairs,) = gathered.tables
    return Interactions(
        pairs.users,
        pairs.items,
        gathered.user_ids,
        gathered.item_ids,
        pairs.times,
        (*table.facts, *gathered.time_facts, *count_facts([pairs], min_rating)),
    )


def count_facts(tables: Sequence[Collected], min_rating: float | None) -> tuple[str, ...]:
    """What ratings left out, and what was merged."""
    facts: tuple[str, ...] = ()
    ratings = [table.ratings for table in tables if table.ratings is not None]
    if ratings:
        values, counts = (np.concatenate(columns) for columns in zip(*ratings, strict=True))
        facts = (threshold_fact(values, counts, min_rating),)
    if repeats := sum(table.n_rows - len(table.users) for table in tables):
        facts = (*facts, f"{repeats:,} repeated row{'s' if repeats > 1 else ''} merged")
    return facts


def _read(table: Table, users: IdNumbers, items: IdNumbers, min_rating: float | None, with_times: bool) -> _Merging:
    merging = _Merging()
    check = _Checked(table)

    def numbered(piece: pl.DataFrame) -> _NumberedRows:
        user_ids, item_ids = check.ids(piece, "user"), check.ids(piece, "item")
        times = check.times(piece) if "time" in table.labels else None
        ratings = check.ratings(piece) if "rating" in table.labels else None
        if ratings is not None and min_rating is not None:
            kept = ratings >= min_rating
            user_ids, item_ids = user_ids.filter(kept), item_ids.filter(kept)
            times = None if times is None else times[kept]
        check.rows_before += piece.height
        return _NumberedRows(users.number(user_ids), items.number(item_ids), times if with_times else None, ratings)

    # Three things at a time: while one piece is merged, the next is numbered, and the one after it is read. All is
    # closed here, even after an error: a thread that was left to the garbage collector might wait for itself.
    with closing(_one_ahead(table.pieces())) as pieces, closing(_one_ahead(map(numbered, pieces))) as ready:
        for rows in ready:
            merging.add(rows)
    if check.rows_before == 0:
        raise DataError(f"{table.source}: there are no rows; expected at least one interaction")
    merging.is_unit_known = check.time_form is not None and check.time_form.is_unit_known
    return merging


def _one_ahead(things: Iterator[_Thing]) -> Generator[_Thing]:
    """The same things; while one is worked on, another thread fetches the next."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = thread.submit(next, things, None)
        while (thing := coming.result()) is not None:
            coming = thread.submit(next, things, None)
            yield thing


@dataclass(frozen=True)
class _NumberedRows:
    users: Codes
    items: Codes
    times: Floats | None
    ratings: Floats | None  # also of the rows that were left out


@dataclass
class _Checked:
    """The columns of a table's pieces, converted; a value that is missing or odd is named with its row."""

    table: Table
    rows_before: int = 0
    time_form: TimeForm | None = None

    def ids(self, piece: pl.DataFrame, role: str) -> pl.Series:
        return self._converted(as_id_column, piece, role, "expected an id in every row")

    def ratings(self, piece: pl.DataFrame) -> Floats:
        expected = "expected a rating, a finite number such as 4 or 3.5, with a point before its decimals"
        return self._converted(as_numbers, piece, "rating", expected).to_numpy()

    def times(self, piece: pl.DataFrame) -> Floats:
        form = self.time_form or find_time_form(_plain(piece["time"]), self.table.time_format)
        self.time_form = form
        expected = (
            "expected a time: in all rows a number, or in all a date such as 2024-05-31 18:30:00; set time_format for "
            "other forms, such as %d/%m/%Y"
            if self.table.time_format is None
            else f"expected a time written as time_format says: {self.table.time_format}"
        )
        return self._converted(form.read, piece, "time", expected).to_numpy()

    def _converted(
        self, convert: Callable[[pl.Series], pl.Series], piece: pl.DataFrame, role: str, expected: str
    ) -> pl.Series:
        column = _plain(piece[role]).alias(self.table.labels[role])
        try:
            values = convert(column)
        except DataError as error:
            raise DataError(f"{self.table.source}: {error}") from error
        if values.null_count() > 0:
            row = int(values.is_null().arg_max() or 0)
            raise DataError(
                f"{self.table.source}, {self.table.where(self.rows_before + row)}: column {column.name} "
                f"{_is_what(column[row])}; {expected}"
            )
        return values


@dataclass
class _Merging:
    """Pairs as they come, merged from time to time."""

    n_rows: int = 0
    n_low: int = 0
    is_unit_known: bool = False  # of the times
    _ratings: list[tuple[Floats, Ints]] = field(default_factory=list)  # distinct ones of each piece, and their rows
    _n_ratings_waiting: int = 0
    _pairs: DistinctPairs = field(default_factory=DistinctPairs)
    _user_rows: _Counts = field(default_factory=lambda: _Counts())
    _item_rows: _Counts = field(default_factory=lambda: _Counts())

    def add(self, rows: _NumberedRows) -> None:
        self._pairs.add(rows.users, rows.items, rows.times)
        self._user_rows.add(rows.users)
        self._item_rows.add(rows.items)
        self.n_rows += len(rows.users)
        if rows.ratings is not None:
            self.n_low += len(rows.ratings) - len(rows.users)
            self._count(rows.ratings)

    def _count(self, ratings: Floats) -> None:
        self._ratings.append(np.unique(ratings, return_counts=True))
        self._n_ratings_waiting += len(self._ratings[-1][0])
        if self._n_ratings_waiting > max(_MERGE_AFTER_RATINGS, 2 * len(self._ratings[0][0])):
            self._ratings = [_added_up(self._ratings)]
            self._n_ratings_waiting = 0

    @property
    def ratings(self) -> tuple[Floats, Ints] | None:
        """Every distinct rating and its rows."""
        return _added_up(self._ratings) if self._ratings else None

    def in_places(self, user_places: Ints, item_places: Ints) -> Collected:
        """With the numbers that the ids have in their order instead of those of their arrival."""
        return Collected(
            *self._pairs.in_places(user_places, item_places),
            self.n_rows,
            self.n_low,
            self.ratings,
            _moved(self._user_rows, user_places),
            _moved(self._item_rows, item_places),
        )


def _added_up(counted: Sequence[tuple[Floats, Ints]]) -> tuple[Floats, Ints]:
    if len(counted) == 1:
        return counted[0]
    values, places = np.unique(np.concatenate([values for values, _ in counted]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([counts for _, counts in counted]), len(values))
    return values, counts.astype(np.int64)


class _Counts:
    """How often each code has come."""

    def __init__(self) -> None:
        self.values = np.zeros(0, np.int64)

    def add(self, codes: Codes) -> None:
        counts = np.bincount(codes, minlength=len(self.values))
        counts[: len(self.values)] += self.values
        self.values = counts


def _moved(counts: _Counts, places: Ints) -> Ints:
    moved = np.zeros(len(places), np.int64)
    moved[places[: len(counts.values)]] = counts.values
    return moved


def _in_seconds(times: list[Floats | None], are_units_known: list[bool]) -> tuple[list[Floats | None], tuple[str, ...]]:
    """All in one unit: what the largest table of numbers says holds for the others."""
    numbers = [part for part, known in zip(times, are_units_known, strict=True) if part is not None and not known]
    if not numbers:
        return times, ()
    unit = find_unit(max(numbers, key=len))
    if unit.per_second == 1:
        return times, ()
    in_seconds = [
        part if part is None or known else part / unit.per_second
        for part, known in zip(times, are_units_known, strict=True)
    ]
    return in_seconds, (f"times read as {unit.name} since 1970",)


def _refuse_odd_ids(tables: Sequence[Table], role: str, numbers: IdNumbers) -> None:
    texts = numbers.texts()
    odd = texts.filter(texts.str.contains("\0", literal=True) | (texts.str.len_chars() > LONGEST_ID))
    if odd.is_empty():
        return
    wanted = odd[0]
    for table in tables:
        for row, found in _rows(table, role):
            if found == wanted:
                has_zero = "\0" in wanted
                problem = "holds a zero byte" if has_zero else f"is {len(wanted):,} characters long"
                advice = "if the file is UTF-16, set encoding" if has_zero else "make sure that the column holds ids"
                raise DataError(
                    f"{table.source}, {table.where(row)}: column {table.labels[role]} {problem}; expected an id of at "
                    f"most {LONGEST_ID:,} characters; {advice}"
                )


def _rows(table: Table, role: str) -> Iterator[tuple[int, object]]:
    rows_before = 0
    for piece in table.pieces():
        yield from enumerate(piece[role], start=rows_before)
        rows_before += piece.height


def _plain(column: pl.Series) -> pl.Series:
    return column.cast(pl.String) if isinstance(column.dtype, pl.Categorical | pl.Enum) else column


def _is_what(value: object) -> str:
    if value is None or value == "":
        return "is empty"
    shown = repr(value)
    return f"is {shown if len(shown) <= 80 else shown[:77] + '…'}"
