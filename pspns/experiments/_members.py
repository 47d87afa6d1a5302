"""Members of an experiment: recipes as plain tables, changed here and there, made into settings."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

from pspns.components import find_part
from pspns.data.settings import DataSettings
from pspns.recipes import recipe_text
from pspns.settings import PART_SECTIONS, EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings

Tables = dict[str, dict[str, Any]]
"""Section → key → value, as a settings file has them."""

PLAIN_SECTIONS = {
    "data": DataSettings,
    "training": TrainingSettings,
    "evaluation": EvaluationSettings,
    "run": RunSettings,
}


def recipe(name: str) -> Tables:
    """The tables of a recipe's file."""
    return tomllib.loads(recipe_text(name))


def changed(tables: Tables, *others: Tables) -> Tables:
    """The tables with other ones laid over them; a section that names another part replaces the whole section."""
    found = copy.deepcopy(tables)
    for other in others:
        for section, entries in other.items():
            if "name" in entries and entries["name"] != found.get(section, {}).get("name"):
                found[section] = dict(entries)
            else:
                found.setdefault(section, {}).update(entries)
    return found


def make_settings(tables: Tables) -> Settings:
    """Settings of well-formed tables; what users write is checked elsewhere, by `pspns.options`."""
    sections: dict[str, Any] = {}
    for section, entries in tables.items():
        if section in PART_SECTIONS:
            rest = {key: value for key, value in entries.items() if key != "name"}
            sections[section] = find_part(PART_SECTIONS[section], entries["name"])(**rest)
        else:
            sections[section] = PLAIN_SECTIONS[section](**entries)
    return Settings(**sections)
