"""Settings as a file that `pspns train --config` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def settings_file(settings: Mapping[str, Mapping[str, Any]]) -> str:
    """One table for each section; what is unset is left out.

    >>> print(settings_file({"run": {"seeds": (0, 1), "threads": None, "baselines": True}}), end="")
    [run]
    seeds = [0, 1]
    baselines = true
    """
    tables = []
    for section, entries in settings.items():
        lines = [f"{key} = {_toml(value)}\n" for key, value in entries.items() if value is not None]
        if lines:
            tables.append("".join([f"[{section}]\n", *lines]))
    return "\n".join(tables)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        # Inside a table TOML has no way to leave something out; for a column, nothing means that there is none.
        pairs = ", ".join(f"{json.dumps(key)} = {_toml('' if v is None else v)}" for key, v in value.items())
        return f"{{{pairs}}}"
    # Words, numbers, yes and no, and lists of them are written alike in JSON and TOML.
    return json.dumps(value, ensure_ascii=False)
