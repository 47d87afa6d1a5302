"""Columns of a table: ids that are never changed, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pspns.data.interactions import Ids, Ints
from pspns.errors import DataError


def from_arrow(column: Any) -> pl.Series:
    """An Arrow column as one of polars, which ends the process where it does not know the type."""
    if pa.types.is_decimal256(column.type):
        column = column.cast(pa.float64())
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series


def plain_numbers(texts: Any) -> Any | None:
    """An Arrow column of text as Int64, if every cell writes a whole number below 10⁷ in the usual way; "007" is other.

    >>> plain_numbers(pa.array(["0", "10"])).to_pylist(), plain_numbers(pa.array(["7", "007"]))
    ([0, 10], None)
    """
    _, starts_buffer, characters_buffer = texts.buffers()
    starts = np.frombuffer(starts_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(starts)
    if lengths.min(initial=1) < 1 or lengths.max(initial=1) > 7:
        return None
    characters = np.frombuffer(characters_buffer, np.uint8)
    written = characters[starts[0] : starts[-1]]
    if written.min() < ord("0") or written.max() > ord("9"):
        return None
    if ((characters[starts[:-1]] == ord("0")) & (lengths > 1)).any():
        return None
    return texts.cast(pa.int64())


def as_id_column(column: pl.Series) -> pl.Series:
    """Ids as Int64, UInt64 or String; missing ones stay null, an empty text becomes null."""
    if column.dtype.is_integer():
        return _as_64_bits(column)
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        texts = column.cast(pl.String)
        is_empty = texts == ""
        return texts.set(is_empty, None) if is_empty.any() else texts
    if column.dtype == pl.Null:
        return column.cast(pl.String)
    message = f"column {column.name} holds {column.dtype}; ids must be whole numbers or text"
    if column.dtype.is_float():
        message += (
            ". Missing values turn whole numbers into floats (pandas does that): leave those rows out, "
            "then make the column whole numbers again"
        )
    raise DataError(message)


def order_texts(texts: pl.Series) -> tuple[Ids, Ints]:
    """Distinct texts in the order of `order_ids`, as numbers if all are, and the place of each among them.

    >>> ids, places = order_texts(pl.Series(["b", "10", "9"]))
    >>> ids.tolist(), places.tolist()
    (['9', '10', 'b'], [2, 1, 0])
    """
    with_numbers = pl.DataFrame({"text": texts}).with_columns(number=_plain_numbers("text")).with_row_index("was")
    ordered = with_numbers.sort("number", "text", nulls_last=True)
    places = np.empty(len(texts), dtype=np.int64)
    places[ordered["was"].to_numpy()] = np.arange(len(texts))
    if ordered["number"].null_count() == 0:
        return ordered["number"].to_numpy(), places
    return np.array(ordered["text"].to_list(), dtype=object), places


def as_numbers(column: pl.Series) -> pl.Series:
    """Float64, null where the value is missing, not a number, or not finite."""
    if column.dtype == pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            # Only now: to look for blanks around numbers takes longer than to read them.
            numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        raise DataError(f"column {column.name} holds {column.dtype}; expected numbers")
    is_finite = numbers.is_finite()
    return numbers if is_finite.all() else numbers.set(~is_finite, None)


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
