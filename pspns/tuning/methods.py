"""Methods: what is compared, by name, and what is searched of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pspns.components import find_part, part_name, part_names
from pspns.errors import SettingsError, blaming, unknown_name
from pspns.recipes import recipe_names
from pspns.search_space import EVERY_METHOD, Space
from pspns.settings import PART_SECTIONS, Settings

BASE_RECIPE = "plain"
METHOD_SECTIONS = ("negatives", "denoiser")
"""The sections whose part a method may name beside its recipe."""
SEARCHABLE_SECTIONS = ("positives", "weighting", "negatives", "denoiser", "model", "start", "training")
"""All others say what is judged and how, which a search must not choose."""
BUDGET = ("training.steps", "training.max_steps", "training.evaluate_every", "training.patience")
"""How long a trial may train: the same for all, and so not searched either."""


@dataclass(frozen=True)
class Method:
    """A recipe, and parts that replace some of its own."""

    recipe: str
    parts: dict[str, str]  # section → name


def method_names(methods: str | Iterable[str]) -> list[str]:
    """The methods as they are called everywhere, from one text or several.

    >>> method_names("plain, paper + dns")
    ['plain', 'paper+dns']
    """
    texts = methods.split(",") if isinstance(methods, str) else list(methods)
    for text in texts:
        if not isinstance(text, str):
            raise SettingsError(f"a method is a name such as 'plain' or 'paper+dns', got {text!r}")
    return ["+".join(name.strip() for name in text.split("+")) for text in texts]


def file_stem(method: str) -> str:
    """A method in the names of files, where not every system takes a colon."""
    return method.replace(":", ".")


def read_method(text: str) -> Method:
    """Names joined by `+`, each of a recipe or of a part; without a recipe it is plain training.

    A part may live outside this package, as `my_module:MyNegatives` or `denoiser=my_module:MyDenoiser`.

    >>> read_method("paper+uniform")
    Method(recipe='paper', parts={'negatives': 'uniform'})
    """
    homes = {"recipe": recipe_names()} | {section: part_names(PART_SECTIONS[section]) for section in METHOD_SECTIONS}
    chosen: dict[str, str] = {}
    for word in text.split("+"):
        section, _, name = word.rpartition("=")
        if ":" in name:
            found = [home for home in METHOD_SECTIONS if home == (section or "negatives")]
        else:
            found = [home for home, names in homes.items() if name in names and section in ("", home)]
        if not found:
            known = [known for names in homes.values() for known in names]
            raise SettingsError(f"method '{text}': {unknown_name(' or '.join(homes), word, known)}")
        if len(found) > 1:
            raise SettingsError(
                f"method '{text}': '{name}' is the name of {' and of '.join(found)}; say which, as in {found[0]}={name}"
            )
        (home,) = found
        if home in chosen:
            raise SettingsError(
                f"method '{text}' has two of {home}, {chosen[home]} and {name}; name one of {', '.join(homes[home])}"
            )
        chosen[home] = name
    return Method(chosen.pop("recipe", BASE_RECIPE), chosen)


def only_losses(parts: Mapping[str, str]) -> dict[str, str]:
    """The loss that a method's parts need, as options, for parts that know but one: nobody has to say so for them.

    >>> only_losses({"denoiser": "deca"}), only_losses({"denoiser": "r-ce"})
    ({'training.loss': 'bce'}, {})
    """
    found = {}
    for section, name in parts.items():
        with blaming(section):
            losses = getattr(find_part(PART_SECTIONS[section], name), "losses", ())
        # Of a part whose settings decide, this is a property.
        if isinstance(losses, tuple) and len(losses) == 1:
            found["training.loss"] = losses[0]
    return found


def searched(settings: Settings) -> Space:
    """What is searched unless something else is said: of training, and what the chosen parts say of themselves."""
    found = dict(EVERY_METHOD)
    for section in PART_SECTIONS:
        own = getattr(getattr(settings, section), "search", {})
        found |= {f"{section}.{key}": values for key, values in own.items()}
    return found


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with other values here and there; each section checks its own, all of them at once."""
    changed = {
        section: dataclasses.replace(getattr(settings, section), **own) for section, own in by_section(values).items()
    }
    return dataclasses.replace(settings, **changed)


def by_section(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Values of settings, one table for each section.

    >>> by_section({"training.l2": 0.1, "positives.rank": 8, "training.loss": "bpr"})
    {'training': {'l2': 0.1, 'loss': 'bpr'}, 'positives': {'rank': 8}}
    """
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    return sections


def check_trains(model: Any) -> None:
    """Models that train have vectors of a size; of others there is nothing to tune."""
    if not hasattr(model, "embedding_size"):
        models = [name for name in part_names("models") if hasattr(find_part("models", name), "embedding_size")]
        raise SettingsError(
            f"model {part_name('models', model)} has no training loop to tune; use {' or '.join(models)}"
        )


def settings_called(name: str, settings: Settings) -> list[str]:
    """The searchable settings, as `section.key`, that a name may mean: that, or `key` alone."""
    return [known for known in searchable(settings) if name in (known, known.partition(".")[2])]


def searchable(settings: Settings) -> list[str]:
    return [
        f"{section}.{field.name}"
        for section in SEARCHABLE_SECTIONS
        for field in dataclasses.fields(getattr(settings, section))
        if f"{section}.{field.name}" not in BUDGET
    ]
