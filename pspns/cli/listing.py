"""`pspns list`: every part there is, computed from the folders."""

from __future__ import annotations

import json
from typing import Any

from pspns.cli.screen import show_table
from pspns.components import KINDS, authors_and_year, describe_part, part_names, part_notes
from pspns.errors import unknown_name
from pspns.evaluation.selection import LOSSES

OTHER_KINDS = ("experiments", "protocols", "recipes", "settings")
NO_PARTS = {"metrics": LOSSES}
"""Kind → name and meaning of what may be named in the place of its parts."""
TOO_LONG_FOR_A_TABLE = {"rule", "note", "cost"}


def show_list(kind: str | None, *, as_json: bool) -> None:
    """The parts of one kind, or the kinds themselves."""
    if kind is None:
        rows: list[dict[str, Any]] = [{"name": name, "parts": len(entries(name))} for name in (*KINDS, *OTHER_KINDS)]
    else:
        rows = entries(kind)
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False, default=str))
        return
    rows = [_shortened(row) for row in rows]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_text(row.get(column, "")) for column in columns] for row in rows]
    show_table(kind or "What `pspns list` can show", columns, cells, text_columns=len(columns))


def entries(kind: str) -> list[dict[str, Any]]:
    """Name and meaning of everything of one kind, and what its file says beside."""
    if kind in KINDS:
        found = [
            {"name": name, "meaning": describe_part(kind, name), **part_notes(kind, name)} for name in part_names(kind)
        ]
        return found + [{"name": name, "meaning": meaning} for name, meaning in NO_PARTS.get(kind, {}).items()]
    match kind:
        case "experiments":
            from pspns.experiments.reproduction import experiment_names, find_experiment

            return [{"name": name, "meaning": find_experiment(name).shows} for name in experiment_names()]
        case "protocols":
            from pspns.evaluation.protocol import PROTOCOLS

            return [{"name": name, "meaning": protocol.meaning} for name, protocol in PROTOCOLS.items()]
        case "recipes":
            from pspns.options import describe_recipe
            from pspns.recipes import recipe_names

            return [{"name": name, "meaning": describe_recipe(name)} for name in recipe_names()]
        case "settings":
            from pspns.options import all_options

            return [
                {"option": f"--{o.name}", "of": o.part, "default": o.default, "meaning": o.note} for o in all_options()
            ]
        case _:
            raise unknown_name("list", kind, (*KINDS, *OTHER_KINDS))


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    """As much as a table has room for."""
    kept = {column: value for column, value in row.items() if column not in TOO_LONG_FOR_A_TABLE}
    return {**kept, "paper": authors_and_year(row["paper"])} if "paper" in row else kept


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
