"""Settings from files, command lines and keyword arguments: names resolved, values checked, unknown ones refused."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pspns.components import field_notes, find_part, part_names
from pspns.errors import SettingsError, unknown_name
from pspns.settings import PART_SECTIONS, Settings

DEFAULT_RECIPE = "plain"
SHORT_FOR = {"data": ("data", "source")}
"""Words that stand for a key of another name; a part's section stands for its name."""


@dataclass(frozen=True)
class Layer:
    """Options from one place; later layers win over earlier ones."""

    origin: str  # for messages: a file's name, "the command line", …
    options: Mapping[str, Any]  # `section.key`, a short `key`, or a section's name → value


def resolve(*layers: Layer) -> Settings:
    """One checked value from all layers.

    A layer that names another part starts that section afresh: `--positives observed` after a recipe with another
    builder does not inherit that builder's settings.

    >>> resolve(Layer("here", {"batch_size": "512", "model": "svd", "rank": 32})).model
    SvdRanking(rank=32)
    """
    parts = _default_parts()
    values: dict[str, dict[str, Any]] = {section: {} for section in _sections()}
    for layer in layers:
        named, others = _part_names_first(layer)
        for section, name in named.items():
            if name != parts[section]:
                parts[section], values[section] = name, {}
        fields = {section: _fields(section, parts) for section in values}
        for option, value in others.items():
            section, key = _locate(option, fields, layer.origin)
            values[section][key] = _convert(fields[section][key], value, option, layer.origin)
    return Settings(**{section: _build(section, parts, given) for section, given in values.items()})


def read_settings_file(path: Path) -> Layer:
    """A TOML file with one table for each section."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    return from_tables(str(path), tables)


def from_tables(origin: str, tables: Mapping[str, Any]) -> Layer:
    """Options from one table for each section, as a settings file or a result holds them."""
    options: dict[str, Any] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{origin}: '{section}' stands outside a section; put it under one, such as [run]")
        if section not in _sections():
            raise SettingsError(f"{origin}: {unknown_name('section', section, _sections())}")
        options.update({f"{section}.{key}": value for key, value in table.items()})
    return Layer(origin, options)


def recipe(name: str) -> Layer:
    """A named bundle of settings."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    text = resources.files("pspns.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return from_tables(f"recipe {name}", tomllib.loads(text))


def recipe_names() -> list[str]:
    files = resources.files("pspns.recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def describe_recipe(name: str) -> str:
    """The comment in the first line of the recipe's file."""
    text = resources.files("pspns.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return text.partition("\n")[0].removeprefix("#").strip()


@dataclass(frozen=True)
class Option:
    """One setting, for lists and help."""

    name: str  # section.key
    part: str  # the part it belongs to, empty where the section has no choice
    default: Any
    note: str


def all_options() -> list[Option]:
    """Every setting there is, of every part."""
    found = []
    for section in _sections():
        kind = PART_SECTIONS.get(section)
        names = part_names(kind) if kind else [""]
        for name in names:
            owner = find_part(kind, name) if kind else _section_class(section)
            notes = field_notes(owner)
            for field in dataclasses.fields(owner):
                found.append(Option(f"{section}.{_dashed(field.name)}", name, field.default, notes.get(field.name, "")))
    return found


def _sections() -> list[str]:
    return [field.name for field in dataclasses.fields(Settings)]


def _section_class(section: str) -> type:
    return type(getattr(Settings(), section))


def _default_parts() -> dict[str, str | None]:
    """Section → the name of its part, None where the section is left to the run."""
    defaults = Settings().as_dict()
    return {section: defaults.get(section, {}).get("name") for section in PART_SECTIONS}


def _part_names_first(layer: Layer) -> tuple[dict[str, str], dict[str, Any]]:
    """The options that name a part, as section → name, and all others."""
    named, others = {}, {}
    for option, value in layer.options.items():
        section = option.removesuffix(".name")
        if section in PART_SECTIONS:
            find_part(PART_SECTIONS[section], str(value))
            named[section] = str(value)
        else:
            others[option] = value
    return named, others


def _fields(section: str, parts: Mapping[str, str | None]) -> dict[str, Any]:
    """Key → type of everything that may be set in a section, given the chosen parts."""
    owner = _section_class(section)
    if kind := PART_SECTIONS.get(section):
        name = parts[section]
        if name is None:
            return {}
        owner = find_part(kind, name)
    hints = typing.get_type_hints(owner)
    return {field.name: hints[field.name] for field in dataclasses.fields(owner)}


def _locate(option: str, fields: Mapping[str, Mapping[str, Any]], origin: str) -> tuple[str, str]:
    """Section and key of an option as it was written."""
    name = option.replace("-", "_")
    if name in SHORT_FOR:
        return SHORT_FOR[name]
    section, dot, key = name.partition(".")
    if dot and key in fields.get(section, {}):
        return section, key
    homes = [section for section, keys in fields.items() if name in keys]
    if len(homes) == 1:
        return homes[0], name
    if homes:
        choices = " or ".join(f"{home}.{_dashed(name)}" for home in homes)
        raise SettingsError(f"{origin}: '{option}' could mean {choices}; say which")
    known = [f"{section}.{_dashed(key)}" for section, keys in fields.items() for key in keys]
    if not dot:
        known += [_dashed(key) for keys in fields.values() for key in keys] + list(PART_SECTIONS) + list(SHORT_FOR)
    close = difflib.get_close_matches(_dashed(option), known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise SettingsError(f"{origin}: no option named '{_dashed(option)}'; {hint}`pspns list settings` shows all")


def _convert(hint: Any, value: Any, option: str, origin: str) -> Any:
    allows_none = type(None) in typing.get_args(hint)
    if allows_none and (value is None or value == "none"):
        return None
    if isinstance(hint, types.UnionType):
        (hint,) = (choice for choice in typing.get_args(hint) if choice is not type(None))
    try:
        if typing.get_origin(hint) is tuple and isinstance(value, str):
            value = _whole_numbers(value)
        elif typing.get_origin(hint) is tuple:
            value = (value,) if isinstance(value, int) else tuple(value)
        if typing.get_origin(hint) is dict and isinstance(value, str):
            value = _named_values(value)
        return TypeAdapter(hint).validate_python(value)
    except (ValidationError, ValueError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SettingsError(f"{origin}: {_dashed(option)} = {value!r}: {reason}") from error


def _whole_numbers(text: str) -> tuple[int, ...]:
    """`0-2,7` → (0, 1, 2, 7)."""
    numbers: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"expected whole numbers such as 0-2 or 0,3,7, got '{text}'")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _named_values(text: str) -> dict[str, str]:
    """`user=visitor,item=sku` → a dictionary."""
    pairs = [piece.partition("=") for piece in text.split(",")]
    if not all(equals and name.strip() and value.strip() for name, equals, value in pairs):
        raise ValueError(f"expected NAME=VALUE,NAME=VALUE, got '{text}'")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _build(section: str, parts: Mapping[str, str | None], given: dict[str, Any]) -> Any:
    kind = PART_SECTIONS.get(section)
    if kind is None:
        return _section_class(section)(**given)
    name = parts[section]
    return None if name is None else find_part(kind, name)(**given)


def _dashed(name: str) -> str:
    return name.replace("_", "-")
