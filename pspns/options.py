"""Options from recipes, files, command lines and keyword arguments, laid over each other to give one run's settings."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.components import field_notes, find_part, part_names
from pspns.errors import SettingsError, blaming, nearest, unknown_name
from pspns.option_values import convert
from pspns.recipes import recipe_names, recipe_text
from pspns.settings import PART_SECTIONS, Settings

DEFAULT_RECIPE = "plain"
SHORT_FOR = {"data": ("data", "source")}
"""Words that stand for a key of another name; a part's section stands for its name."""


@dataclass(frozen=True)
class Layer:
    """Options from one place; later layers win over earlier ones."""

    origin: str  # for messages: a file's name, "the command line", …
    options: Mapping[str, Any]  # `section.key`, a short `key`, or a section's name → value
    on_command_line: bool = False

    def where(self, option: str) -> str:
        """An option as its user wrote it, for messages."""
        return f"{self.origin}: {self.spell(option)}"

    def spell(self, option: str) -> str:
        return f"--{option}" if self.on_command_line else option

    def suggest(self, name: str) -> str:
        """The name of a setting as it is written in this place."""
        return f"--{_dashed(name)}" if self.on_command_line else name


def command_line(options: Mapping[str, Any]) -> Layer:
    """Options as they were typed, without their dashes in front."""
    return Layer("the command line", options, on_command_line=True)


def resolve(*layers: Layer) -> Settings:
    """One checked value from all layers.

    A layer that names another part starts that section afresh: `--positives observed` after a recipe with another
    builder does not inherit that builder's settings.

    >>> resolve(Layer("here", {"batch_size": "512", "model": "svd", "rank": 32})).model
    SvdRanking(rank=32)
    """
    parts = _default_parts()
    values: dict[str, dict[str, Any]] = {section: {} for section in _sections()}
    written: dict[str, dict[str, str]] = {section: {} for section in values}  # key → where and how, for messages
    for layer in layers:
        named, others = _part_names_first(layer)
        for section, name in named.items():
            if name != parts[section]:
                parts[section], values[section] = name, {}
        fields = {section: _fields(section, parts) for section in values}
        places: dict[tuple[str, str], str] = {}
        for option, value in others.items():
            section, key = _locate(option, fields, parts, layer)
            if (section, key) in places:
                raise _given_twice(layer, places[section, key], option)
            places[section, key] = option
            written[section][key] = layer.where(option)
            values[section][key] = convert(fields[section][key], value, written[section][key])
    return Settings(**{section: _build(section, parts, given, written[section]) for section, given in values.items()})


def read_settings_file(path: Path) -> Layer:
    """A TOML file with one table for each section."""
    try:
        # Some editors begin a file with a byte-order mark, which TOML does not know.
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    return from_tables(str(path), tables)


def from_tables(origin: str, tables: Mapping[str, Any]) -> Layer:
    """Options from one table for each section, as a settings file or a result holds them."""
    options: dict[str, Any] = {}
    for section, table in tables.items():
        if section not in _sections():
            if isinstance(table, dict):
                raise SettingsError(f"{origin}: {unknown_name('section', section, _sections())}")
            raise SettingsError(f"{origin}: '{section}' stands outside a section; put it under {_home(section)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{origin}: '{section}' must be a section [{section}] with keys, got {table!r}")
        options.update({f"{section}.{key}": value for key, value in table.items()})
    return Layer(origin, options)


def read_recipe(name: str) -> Layer:
    """A named bundle of settings."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    text = recipe_text(name)
    return from_tables(f"recipe {name}", tomllib.loads(text))


def base_layers(recipe: str, config: str | Path | None) -> list[Layer]:
    """What stands under the options given on the spot: a recipe and, over it, a file."""
    return [read_recipe(recipe), *([] if config is None else [read_settings_file(Path(config))])]


def describe_recipe(name: str) -> str:
    """The comment in the first line of the recipe's file."""
    text = recipe_text(name)
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
    named: dict[str, str] = {}
    others = {}
    for option, value in layer.options.items():
        section = option.removesuffix(".name")
        if section not in PART_SECTIONS:
            others[option] = value
            continue
        if section in named:
            raise _given_twice(layer, section, f"{section}.name")
        with blaming(layer.where(option)):
            _part_class(PART_SECTIONS[section], str(value))
        named[section] = str(value)
    return named, others


def _fields(section: str, parts: Mapping[str, str | None]) -> dict[str, Any]:
    """Key → type of everything that may be set in a section, given the chosen parts."""
    owner = _section_class(section)
    if kind := PART_SECTIONS.get(section):
        name = parts[section]
        if name is None:
            return {}
        owner = _part_class(kind, name)
    hints = typing.get_type_hints(owner)
    return {field.name: hints[field.name] for field in dataclasses.fields(owner)}


def _part_class(kind: str, name: str) -> type:
    found = find_part(kind, name)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise SettingsError(f"'{name}' is not a part with settings; expected a dataclass such as those of {kind}")
    return found


def _locate(
    option: str, fields: Mapping[str, Mapping[str, Any]], parts: Mapping[str, str | None], layer: Layer
) -> tuple[str, str]:
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
        choices = " or ".join(layer.suggest(f"{home}.{name}") for home in homes)
        raise SettingsError(f"{layer.origin}: '{layer.spell(option)}' could mean {choices}; say which")
    _refuse_other_parts(option, parts, layer)
    known = [f"{section}.{key}" for section, keys in fields.items() for key in keys]
    if not dot:
        known += [key for keys in fields.values() for key in keys] + list(PART_SECTIONS) + list(SHORT_FOR)
    hint = nearest(layer.suggest(name), map(layer.suggest, known))
    raise SettingsError(
        f"{layer.origin}: no option named '{layer.spell(option)}'{hint}; `pspns list settings` shows all"
    )


def _refuse_other_parts(option: str, parts: Mapping[str, str | None], layer: Layer) -> None:
    """The error for a setting that exists, but not of the parts that were chosen."""
    homes = [home for home in all_options() if _dashed(option) in (home.name, home.name.partition(".")[2])]
    if homes:
        section = homes[0].name.partition(".")[0]
        owners = " or ".join(home.part for home in homes if home.name == homes[0].name)
        raise SettingsError(
            f"{layer.where(option)} is a setting of {section} {owners}, but {section} is {parts[section] or 'unset'}; "
            f"choose {owners} with {layer.suggest(section)}"
        )


def _given_twice(layer: Layer, first: str, second: str) -> SettingsError:
    return SettingsError(f"{layer.where(first)} is given twice, the second time as {layer.spell(second)}; give it once")


def _home(key: str) -> str:
    """Where in a file a key without a section belongs."""
    homes = {option.name.partition(".")[0] for option in all_options() if option.name.endswith(f".{_dashed(key)}")}
    return " or ".join(f"[{home}]" for home in sorted(homes)) or "one, such as [run]"


def _build(section: str, parts: Mapping[str, str | None], given: dict[str, Any], written: Mapping[str, str]) -> Any:
    owner = _section_class(section)
    if kind := PART_SECTIONS.get(section):
        name = parts[section]
        if name is None:
            return None
        owner = _part_class(kind, name)
    try:
        return owner(**given)
    except SettingsError as error:
        # What a section says about a setting begins with its name; the user knows it as they wrote it.
        key = re.split(r"\W", str(error), maxsplit=1)[0]
        raise SettingsError(f"{written.get(key, key)}{str(error).removeprefix(key)}") from error


def _dashed(name: str) -> str:
    return name.replace("_", "-")
