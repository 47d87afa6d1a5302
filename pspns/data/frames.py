"""Frames in memory (polars, pandas, Arrow) to Interactions."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from pspns.data.columns import AskedColumns, choose_columns
from pspns.data.gather import to_interactions
from pspns.data.interactions import Interactions
from pspns.data.series import from_arrow
from pspns.data.table import Table, row_number
from pspns.errors import DataError


def is_frame(data: object) -> bool:
    return isinstance(data, pl.DataFrame | pl.LazyFrame | pa.Table | pa.RecordBatch) or _is_pandas(data)


def from_frame(
    frame: Any,
    *,
    columns: AskedColumns | None = None,
    min_rating: float | None = None,
    time_format: str | None = None,
) -> Interactions:
    """The distinct pairs of a polars DataFrame or LazyFrame, a pandas DataFrame, or an Arrow table.

    >>> from_frame(pl.DataFrame({"user": ["a", "b"], "item": [7, 8]})).item_ids.tolist()
    [7, 8]
    """
    source = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    names = [str(name) for name in _names(frame)]
    chosen = choose_columns(names, columns, source)
    if isinstance(frame, pl.LazyFrame):
        used = frame.select(names[place] for place in chosen.used).collect()
    else:
        used = pl.DataFrame([_column(frame, place, source, names).alias(str(place)) for place in chosen.used])
    if used.is_empty():  # before types are looked at: pandas gives columns of nothing the type of floats
        raise DataError(f"{source}: there are no rows; expected at least one interaction")
    return to_interactions(
        Table.from_columns(source, chosen, lambda: iter([used]), row_number, time_format), min_rating
    )


def _is_pandas(data: object) -> bool:
    # pandas is not a dependency: a frame of it can only come from a program that has imported it.
    return type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame"


def _names(frame: Any) -> list[object]:
    if isinstance(frame, pl.LazyFrame):
        return list(frame.collect_schema())
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return list(frame.schema.names)
    return list(frame.columns)


def _column(frame: Any, place: int, source: str, names: list[str]) -> pl.Series:
    if isinstance(frame, pl.DataFrame):
        return frame.to_series(place)
    try:
        column: Any = pl.from_pandas(frame.iloc[:, place]) if _is_pandas(frame) else from_arrow(frame.column(place))
    except (ValueError, TypeError, OverflowError) as error:  # Arrow's errors are among these
        raise DataError(
            f"{source}: column {names[place]!r} mixes kinds of values ({error}); make it one kind"
        ) from error
    assert isinstance(column, pl.Series)
    return column
