"""Times in the forms people write them, as seconds since 1970 (UTC)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from pspns.data.interactions import Floats
from pspns.data.series import as_numbers
from pspns.errors import DataError, SettingsError


@dataclass(frozen=True)
class TimeForm:
    """One way to write times; `read` gives Float64, null where a value is not written so."""

    read: Callable[[pl.Series], pl.Series]
    is_unit_known: bool = True  # dates tell their unit; numbers do not


def find_time_form(column: pl.Series, asked: str | None) -> TimeForm:
    """The form of a column's values, told from the first of them; one column has one form."""
    if asked is not None:
        return TimeForm(lambda texts: _parsed(texts, asked))
    if isinstance(column.dtype, pl.Date | pl.Datetime):
        return TimeForm(_seconds)
    if column.dtype == pl.String:
        texts = column.str.strip_chars()
        for pattern, form in _FORMS:
            if texts.str.contains(pattern).any():
                return form
    return TimeForm(as_numbers, is_unit_known=False)


@dataclass(frozen=True)
class Unit:
    """What numbers count since 1970 if they are this large: seconds of that size would lie after the year 5000."""

    name: str
    per_second: float
    at_least: float


UNITS = (
    Unit("nanoseconds", 1e9, 1e17),
    Unit("microseconds", 1e6, 1e14),
    Unit("milliseconds", 1e3, 1e11),
    Unit("seconds", 1, 0),
)


def find_unit(times: Floats) -> Unit:
    """The unit of most of these numbers.

    >>> find_unit(np.array([1.7e12, 1.6e12, 0])).name
    'milliseconds'
    """
    ends = {_unit_of(abs(float(end))) for end in (times.min(), times.max())}
    # The middle lies between them; to look for it takes long.
    return ends.pop() if len(ends) == 1 and times.min() >= 0 else _unit_of(float(np.median(np.abs(times))))


def _unit_of(number: float) -> Unit:
    return next(unit for unit in UNITS if number >= unit.at_least)


def _iso(texts: pl.Series) -> pl.Series:
    # Only dates that begin with the year: 01/02/2020 is one of two days.
    texts = texts.str.strip_chars().str.replace(r"^(\d{4})/(\d{2})/(\d{2})", "$1-$2-$3")
    texts = texts.set(~texts.str.contains(r"^\d{4}-\d{2}-\d{2}").fill_null(False), None)
    try:
        return _seconds(texts.str.to_datetime(time_unit="us", time_zone="UTC", strict=False))
    except pl.exceptions.ComputeError:  # no value has a form that polars knows
        return pl.Series(texts.name, [None] * len(texts), pl.Float64)


def _parsed(texts: pl.Series, form: str) -> pl.Series:
    if texts.dtype.is_integer():
        texts = texts.cast(pl.String)
    if texts.dtype != pl.String:
        raise DataError(f"column {texts.name} holds {texts.dtype}; time_format is for text and whole numbers")
    has_zone = "%z" in form or "%:z" in form
    try:
        moments = texts.str.strip_chars().str.to_datetime(form, time_unit="us", strict=False, exact=True)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise SettingsError(f"time_format cannot be {form!r}: {reason}") from error
    return _seconds(moments if has_zone else moments.dt.replace_time_zone("UTC"))


def _seconds(moments: pl.Series) -> pl.Series:
    # By their numbers: polars does not know what to do with moments that lie beyond its calendar.
    numbers = moments.to_physical()
    if isinstance(moments.dtype, pl.Datetime):
        microseconds = numbers // 1000 if moments.dtype.time_unit == "ns" else numbers
        return microseconds.cast(pl.Float64) / (1e3 if moments.dtype.time_unit == "ms" else 1e6)
    return numbers.cast(pl.Float64) * 86_400


# Forms that can be told from a single value: ISO 8601; Amazon's "05 31, 2024"; C's ctime, without and with a zone.
_WEEKDAY_MONTH_DAY_TIME = r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8}"
_FORMS: tuple[tuple[str, TimeForm], ...] = (
    (r"^\d{4}[-/]\d{2}[-/]\d{2}", TimeForm(_iso)),
    (r"^\d{1,2} \d{1,2}, \d{4}$", TimeForm(lambda texts: _parsed(texts, "%m %d, %Y"))),
    (_WEEKDAY_MONTH_DAY_TIME + r" \d{4}$", TimeForm(lambda texts: _parsed(texts, "%a %b %e %T %Y"))),
    (_WEEKDAY_MONTH_DAY_TIME + r" [-+]\d{4} \d{4}$", TimeForm(lambda texts: _parsed(texts, "%a %b %e %T %z %Y"))),
)
