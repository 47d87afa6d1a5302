"""Methods to tune and what is searched of them, from what was typed or handed over."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pspns.errors import SettingsError, blaming, nearest
from pspns.option_values import convert
from pspns.options import Layer, all_options, read_recipe, read_settings_file, resolve
from pspns.settings import Settings
from pspns.tuning.methods import (
    BUDGET,
    METHOD_SECTIONS,
    read_method,
    searchable,
    searched,
    settings_called,
    with_values,
)
from pspns.tuning.space import Choices, Space, Span


def resolve_methods(
    names: Sequence[str], given: Layer, config: str | Path | None, search: Mapping[str, Any]
) -> tuple[dict[str, Settings], dict[str, Space]]:
    """Method → its settings, and method → what is searched of them.

    `given` and the file `config` hold for every method; `search` says for some settings what is tried instead.
    """
    layers = [*([read_settings_file(Path(config))] if config is not None else []), given]
    for layer in layers:
        _refuse_what_methods_choose(layer)
    bases: dict[str, Settings] = {}
    for name in names:
        if name in bases:
            raise SettingsError(f"method {name} is given twice; give it once")
        method = read_method(name)
        bases[name] = resolve(read_recipe(method.recipe), Layer(f"method {name}", method.parts), *layers)
    spaces = {name: searched(settings) for name, settings in bases.items()}
    for option, values in search.items():
        _search_too(option, values, bases, spaces)
    for name, settings in bases.items():
        for setting in spaces[name]:
            _check_values(setting, spaces[name], settings)
    for layer in layers:
        _refuse_searched(layer, spaces)
    return bases, spaces


def read_search(texts: Sequence[str]) -> dict[str, str]:
    """`training.l2=1e-5,1e-4` → what is tried of a setting.

    >>> read_search(["l2=1e-5,1e-4"])
    {'l2': '1e-5,1e-4'}
    """
    found: dict[str, str] = {}
    for text in texts:
        option, _, values = text.partition("=")
        if not option or not values:
            raise SettingsError(f"--search must be a setting and its values, such as l2=1e-5,1e-4, got '{text}'")
        if option in found:
            raise SettingsError(f"--search {option} is given twice; give it once, with all values")
        found[option] = values
    return found


def _refuse_what_methods_choose(layer: Layer) -> None:
    """Options hold for every method; a part that methods choose, and its settings, can not."""
    homes: dict[str, set[str]] = {}  # an option as it may be written → its sections
    for known in all_options():
        section, _, key = known.name.partition(".")
        for name in (known.name, key):
            homes.setdefault(name, set()).add(section)
    for option in layer.options:
        if option.removesuffix(".name") in METHOD_SECTIONS:
            raise SettingsError(
                f"{layer.where(option)} is what methods differ in; name it among the methods, as in plain+dns"
            )
        sections = homes.get(option.replace("_", "-"), set())
        if sections and sections <= set(METHOD_SECTIONS):
            raise SettingsError(
                f"{layer.where(option)} is a setting that not every method has; say with search {option}=… what is "
                "tried of it, one value or several"
            )


def _search_too(option: str, values: Any, bases: Mapping[str, Settings], spaces: dict[str, Space]) -> None:
    """Let every method that has the setting search these values instead of its own."""
    name, where = option.replace("-", "_"), f"search {option}"
    homes = {method: settings_called(name, settings) for method, settings in bases.items()}
    if not any(homes.values()):
        if any(name in (known, known.partition(".")[2]) for known in BUDGET):
            raise SettingsError(f"{where}: how long a trial may train is the same for all, and so not searched")
        known = sorted({known for settings in bases.values() for known in searchable(settings)})
        raise SettingsError(
            f"{where}: no method has such a setting{nearest(name, known)}; expected one of {', '.join(known)}"
        )
    for method, found in homes.items():
        if len(found) > 1:
            raise SettingsError(f"{where} could mean {' or '.join(found)}; say which")
        for setting in found:
            spaces[method][setting] = _values(values, setting, bases[method], where)


def _values(values: Any, setting: str, settings: Settings, where: str) -> Choices | Span:
    if isinstance(values, Choices | Span):
        return values
    section, _, key = setting.partition(".")
    hint = typing.get_type_hints(type(getattr(settings, section)))[key]
    pieces = [piece.strip() for piece in values.split(",")] if isinstance(values, str) else list(values)
    with blaming(where):
        return Choices(tuple(convert(hint, piece, "each value") for piece in pieces))


def _check_values(setting: str, space: Space, settings: Settings) -> None:
    """Each value must go together with some values of its section's other settings."""
    section = setting.partition(".")[0]
    siblings = [name for name in space if name != setting and name.startswith(f"{section}.")]
    combinations = list(itertools.product(*(space[name].examples for name in siblings)))
    for example in space[setting].examples:
        errors = []
        for combination in combinations:
            try:
                with_values(settings, {setting: example, **dict(zip(siblings, combination, strict=True))})
            except SettingsError as error:
                errors.append(error)
            else:
                break
        if len(errors) == len(combinations):
            raise SettingsError(f"search: {errors[0]}") from errors[0]


def _refuse_searched(layer: Layer, spaces: Mapping[str, Space]) -> None:
    for option in layer.options:
        name = option.replace("-", "_")
        for method, space in spaces.items():
            if any(name in (setting, setting.partition(".")[2]) for setting in space):
                raise SettingsError(
                    f"{layer.where(option)} is searched for method {method}; leave it out, or say with "
                    f"search {option}=… what is tried, one value or several"
                )
