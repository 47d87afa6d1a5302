"""What an option was given, as the type its setting has: one reading for command lines, files and Python."""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from pspns.errors import SettingsError, nearest

# A typing slip such as 0-10000000000 would fill the memory.
MOST_NUMBERS = 10_000
# pydantic takes zeros away from the front, and so 0-2 for -2.
_WHOLE = re.compile(r"\s*[+-]?\d+(_\d+)*\s*")


def convert(hint: Any, value: Any, where: str) -> Any:
    """The value as the setting's type; text is read as the command line writes it, `where` begins every complaint.

    >>> convert(tuple[int, ...], "0-2,7", "--seeds"), convert(float | None, "none", "--min-rating")
    ((0, 1, 2, 7), None)
    """
    text = value if isinstance(value, str) else None
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in choices:
        if value is None or text == "none":
            return None
        (hint,) = (choice for choice in choices if choice is not type(None))
    if text == "":
        raise SettingsError(f"{where} needs a value: {_in_words(hint)}")
    adapter = TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
    try:
        plain = _plain(value, typing.get_origin(hint))
        if hint is int and isinstance(plain, str) and not _WHOLE.fullmatch(plain):
            raise ValueError(plain)
        return (
            adapter.validate_strings(plain) if isinstance(plain, str) else adapter.validate_python(plain, strict=True)
        )
    except (ValidationError, ValueError, TypeError) as error:
        close = nearest(str(value), typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else ""
        raise SettingsError(f"{where} must be {_in_words(hint)}, got {value!r}{close}") from error


def _plain(value: Any, container: Any) -> Any:
    """Lists of numbers and named values read from text; numpy's numbers and paths as Python's own values."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if container is tuple:
        if isinstance(value, str):
            return _whole_numbers(value)
        items: Iterable[Any] = (value,) if isinstance(value, int) else value
        return tuple(_plain(item, None) for item in items)
    return _named_values(value) if container is dict and isinstance(value, str) else value


def _in_words(hint: Any) -> str:
    """What a setting of this type expects."""
    match typing.get_origin(hint) or hint:
        case builtin if builtin in _WORDS:
            return _WORDS[builtin]
        case typing.Literal:
            return f"one of {', '.join(map(str, typing.get_args(hint)))}"
        case _:
            return str(hint)


_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "text",
    tuple: f"whole numbers such as 0-2 or 0,3,7, at most {MOST_NUMBERS:,} of them",
    dict: "names with values, such as user=visitor,item=sku",
}


def _whole_numbers(text: str) -> tuple[int, ...]:
    """`0-2,7` → (0, 1, 2, 7)."""
    numbers: list[int] = []
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", piece)
        if match is None:
            raise ValueError
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last < first + MOST_NUMBERS - len(numbers):
            raise ValueError
        numbers += range(first, last + 1)
    return tuple(numbers)


def _named_values(text: str) -> dict[str, str]:
    """`user=visitor,item=sku` → a dictionary; `rating=` says that there is none."""
    pairs = [piece.partition("=") for piece in text.split(",")]
    named = {name.strip(): value.strip() for name, _, value in pairs}
    if not all(equals and name.strip() for name, equals, _ in pairs) or len(named) < len(pairs):
        raise ValueError
    return named
