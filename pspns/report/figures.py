"""The pieces of a table's number, as text with a true minus sign."""

from __future__ import annotations

from string import ascii_lowercase

from pspns.experiments.sections import Number, Table
from pspns.report.marks import plain

SHORT = 10
"""Letters of a note up to which it stands beside its figure; longer ones stand below the table."""


def figure(number: Number) -> str:
    """Without unit.

    >>> figure(Number(-3.14159, digits=1, sign=True, unit=" %", spread=0.2)), figure(Number(1234.5, digits=0))
    ('−3.1', '1,234')
    """
    return _written(number.value, number)


def spread(number: Number) -> str:
    return _written(number.spread, number, sign=False)


def interval(number: Number) -> tuple[str, str]:
    return _written(number.low, number), _written(number.high, number)


def lettered(table: Table) -> dict[str, str]:
    """Long note → the letter that stands for it in the table."""
    notes = [cell.note for _, cells in table.rows for cell in cells if isinstance(cell, Number)]
    long = dict.fromkeys(note for note in notes if len(plain(note)) > SHORT)
    return {note: ascii_lowercase[place % 26] * (1 + place // 26) for place, note in enumerate(long)}


def _written(value: float | None, like: Number, *, sign: bool = True) -> str:
    if value is None:
        return ""
    return str(Number(value, digits=like.digits, sign=like.sign and sign)).replace("-", "−")
