"""Methods to tune and what is searched of them, from what was typed or handed over."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pspns.errors import SettingsError, blaming, nearest
from pspns.option_values import convert
from pspns.options import Layer, all_options, read_recipe, read_settings_file, resolve
from pspns.search_space import Choices, Space, Span
from pspns.settings import Settings
from pspns.tuning.methods import (
    BUDGET,
    METHOD_SECTIONS,
    check_trains,
    method_names,
    only_losses,
    read_method,
    searchable,
    searched,
    settings_called,
    with_values,
)


def resolve_methods(
    methods: str | Iterable[str], given: Layer, config: str | Path | None, search: Mapping[str, Any]
) -> tuple[dict[str, Settings], dict[str, Space]]:
    """Method → its settings, and method → what is searched of them.

    `given` and the file `config` hold for every method; `search` says for some settings what is tried instead.
    """
    if not isinstance(search, Mapping):
        raise SettingsError(
            f"{given.suggest('search')} must be settings with what is tried of each, such as {{'l2': '1e-5,1e-4'}}, "
            f"got {search!r}"
        )
    layers = [*([read_settings_file(Path(config))] if config is not None else []), given]
    for layer in layers:
        _refuse_what_methods_choose(layer, given)
    _check_model(layers)
    bases: dict[str, Settings] = {}
    for name in method_names(methods):
        if name in bases:
            raise SettingsError(f"method {name} is given twice; give it once")
        method = read_method(name)
        with blaming(f"method {name}"):
            losses = only_losses(method.parts)
        bases[name] = resolve(read_recipe(method.recipe), Layer(f"method {name}", {**method.parts, **losses}), *layers)
    spaces = {name: searched(settings) for name, settings in bases.items()}
    for option, values in search.items():
        _search_too(option, values, bases, spaces, f"{given.suggest('search')} {option}")
    for name, settings in bases.items():
        for setting in spaces[name]:
            _check_values(setting, spaces[name], settings, given.suggest("search"))
    for layer in layers:
        _refuse_searched(layer, spaces, given)
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


def _refuse_what_methods_choose(layer: Layer, given: Layer) -> None:
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
                f"{layer.where(option)} is a setting that not every method has; {_say_what_is_tried(option, given)}"
            )


def _say_what_is_tried(option: str, given: Layer) -> str:
    search = f"--search {option}=…" if given.on_command_line else f"search={{'{option}': …}}"
    return f"say with {search} what is tried of it, one value or several"


def _check_model(layers: Sequence[Layer]) -> None:
    """Before methods are made: with a model that does not train, theirs would be blamed for its negatives."""
    named = [
        dataclasses.replace(layer, options={o: layer.options[o] for o in ("model", "model.name") if o in layer.options})
        for layer in layers
    ]
    check_trains(resolve(*named).model)


def _search_too(option: str, values: Any, bases: Mapping[str, Settings], spaces: dict[str, Space], where: str) -> None:
    """Let every method that has the setting search these values instead of its own."""
    name = option.replace("-", "_")
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
    if isinstance(values, str):
        pieces: list[Any] = [piece.strip() for piece in values.split(",")]
        if "" in pieces:
            raise SettingsError(f"{where} must be values with commas between them, such as 1 or 1,2, got '{values}'")
    else:
        pieces = list(values) if isinstance(values, Iterable) else [values]
    with blaming(where):
        return Choices(tuple(convert(hint, piece, "each value") for piece in pieces))


def _check_values(setting: str, space: Space, settings: Settings, search: str) -> None:
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
            complaint = str(errors[-1])
            if any(str(error) != complaint for error in errors):  # otherwise it is about this value alone
                others = " and ".join(siblings)
                complaint = (
                    f"{setting} = {example} goes with nothing that is tried of {others}; the last said: {complaint}"
                )
            raise SettingsError(f"{search}: {complaint}") from errors[-1]


def _refuse_searched(layer: Layer, spaces: Mapping[str, Space], given: Layer) -> None:
    for option in layer.options:
        name = option.replace("-", "_")
        for method, space in spaces.items():
            if any(name in (setting, setting.partition(".")[2]) for setting in space):
                raise SettingsError(
                    f"{layer.where(option)} is searched for method {method}; leave it out, or "
                    f"{_say_what_is_tried(option, given)}"
                )
