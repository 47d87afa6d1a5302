"""Options that the command line takes without knowing them: every setting there is."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence

from pspns.data.settings import DataSettings
from pspns.errors import SettingsError, nearest
from pspns.option_values import convert


def data_settings(source: str, arguments: Sequence[str]) -> DataSettings:
    """Settings of `[data]` for commands that only look at data, and so need not wait for torch.

    >>> data_settings("plays.csv", ["--columns", "user=who", "--core=5"]).core
    5
    """
    hints = typing.get_type_hints(DataSettings)
    given = {}
    for option, value in parse_rest(arguments).items():
        name = option.removeprefix("data.").replace("-", "_")
        if name not in data_option_names():
            names = [f"--{name.replace('_', '-')}" for name in data_option_names()]
            raise SettingsError(
                f"the command line: no option named '--{option}'{nearest(f'--{option}', names)}; expected one of "
                f"{', '.join(names)}"
            )
        given[name] = convert(hints[name], value, f"the command line: --{option}")
    return DataSettings(source=source, **given)


def data_option_names() -> list[str]:
    """All but those that have their own place and those that only training has a use for."""
    return [field.name for field in dataclasses.fields(DataSettings) if field.name not in ("source", "noise")]


def parse_rest(arguments: Sequence[str]) -> dict[str, str]:
    """`--section.key value` and `--key=value` for every setting that has no option of its own.

    >>> parse_rest(["--training.batch-size", "512", "--l2=0"])
    {'training.batch-size': '512', 'l2': '0'}
    """
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or len(word) == 2:
            raise SettingsError(f"the command line: '{word}' was not expected; options begin with --")
        name, equals, value = word[2:].partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        if name in found:
            raise SettingsError(f"the command line: --{name} is given twice; give it once")
        # A missing value stays empty, to be refused once the name is known to exist.
        found[name] = value
    return found
