"""Columns of a table as arrays: ids that are never changed, numbers, and times in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pspns.data.interactions import Ids, Ints
from pspns.errors import DataError


def as_id_column(column: pl.Series) -> pl.Series:
    """Ids as Int64, UInt64 or String; missing ones stay null, an empty text becomes null."""
    if column.dtype.is_integer():
        return _as_64_bits(column)
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        texts = column.cast(pl.String)
        return texts.set(texts == "", None)
    if column.dtype == pl.Null:
        return column.cast(pl.String)
    message = f"column {column.name} holds {column.dtype}; ids must be whole numbers or text"
    if column.dtype.is_float():
        message += (
            ". Missing values turn whole numbers into floats (pandas does that): leave those rows out, "
            "then make the column whole numbers again"
        )
    raise DataError(message)


def join_ids(parts: Sequence[pl.Series]) -> pl.Series:
    """The ids of several tables as one column: numbers if all are, else text."""
    dtypes = {part.dtype for part in parts}
    joined = dtypes.pop() if len(dtypes) == 1 else pl.String()
    return pl.concat([part.cast(joined).alias("ids") for part in parts])


def number_ids(ids: pl.Series) -> tuple[Ids, Ints]:
    """Distinct ids in the order of `order_ids`, and each row's place among them; no id is null.

    >>> distinct, places = number_ids(pl.Series(["b", "10", "9", "b"]))
    >>> distinct.tolist(), places.tolist()
    (['9', '10', 'b'], [2, 1, 0, 2])
    """
    if ids.dtype == pl.String:
        distinct = pl.DataFrame({"text": ids.unique()}).with_columns(number=_plain_numbers("text"))
        if distinct["number"].null_count() > 0:
            ordered = distinct.sort("number", "text", nulls_last=True)["text"]
            places = ids.cast(pl.Enum(ordered)).to_physical()
            return np.array(ordered.to_list(), dtype=object), places.to_numpy().astype(np.int64)
        ids = ids.cast(pl.Int64)
    numbers, number_places = np.unique(ids.to_numpy(), return_inverse=True)
    return numbers, number_places.astype(np.int64)


def as_numbers(column: pl.Series) -> pl.Series:
    """Float64, null where the value is missing, not a number, or not finite."""
    if column.dtype == pl.String:
        numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        raise DataError(f"column {column.name} holds {column.dtype}; expected numbers")
    return numbers.set(~numbers.is_finite(), None)


def as_seconds(column: pl.Series) -> pl.Series:
    """Times as Float64, null where there is none: numbers as they are, dates as seconds since 1970 (UTC)."""
    if isinstance(column.dtype, pl.Date | pl.Datetime):
        return _seconds(column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column)
    numbers = as_numbers(column)
    if column.dtype != pl.String or numbers.null_count() < len(numbers):
        return numbers
    texts = column.str.strip_chars()
    # Only ISO dates: polars would also take 01/02/2020, as one of the two days it can mean.
    texts = texts.set(~texts.str.contains(r"^\d{4}-\d{2}-\d{2}"), None)
    if texts.null_count() == len(texts):
        return numbers
    try:
        moments = texts.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    except pl.exceptions.ComputeError:  # no value has a form that polars knows
        return numbers
    return _seconds(moments)


def _as_64_bits(column: pl.Series) -> pl.Series:
    for dtype in (pl.Int64, pl.UInt64):
        numbers = column.cast(dtype, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    raise DataError(f"column {column.name} holds whole numbers beyond 64 bits; make it text")


def _plain_numbers(column: str) -> pl.Expr:
    """The number a text writes in the usual way, else null: the same test as `is_plain_number`."""
    number = pl.col(column).cast(pl.Int64, strict=False)
    return pl.when(number.cast(pl.String) == pl.col(column)).then(number)


def _seconds(moments: pl.Series) -> pl.Series:
    return moments.dt.epoch("us").cast(pl.Float64) / 1e6
