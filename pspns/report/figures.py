"""The pieces of a table's number, as text with a true minus sign."""

from __future__ import annotations

from pspns.experiments.sections import Number


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


def _written(value: float | None, like: Number, *, sign: bool = True) -> str:
    if value is None:
        return ""
    return str(Number(value, digits=like.digits, sign=like.sign and sign)).replace("-", "−")
