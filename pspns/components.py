"""The folder is the registry: a part's file name, with `-` for `_`, is the name users type.

A part lives in `pspns/<kind>/<name>.py` and ends in `COMPONENT = TheClass`. Files whose name starts
with `_` are shared by the parts of a folder and are not parts themselves.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from pspns.errors import SettingsError, unknown_name

# The kinds of parts, and the package whose files they are.
KINDS: dict[str, str] = {
    "models": "pspns.models",
    "starts": "pspns.starts",
    "positives": "pspns.positives",
    "weightings": "pspns.weightings",
    "negatives": "pspns.negatives",
    "denoisers": "pspns.denoising",
    "losses": "pspns.losses",
    "metrics": "pspns.evaluation.metrics",
    "splits": "pspns.data.splits",
    "datasets": "pspns.data.catalogue",
}

# The entries that may follow the first line in the docstring of a part's file.
NOTES = ("Rule", "Note", "Cost", "Paper")


def part_names(kind: str) -> list[str]:
    """The names of all parts of one kind, sorted.

    >>> "mf" in part_names("models")
    True
    """
    return sorted(_files(kind))


def find_part(kind: str, name: str) -> Any:
    """The part called `name`; `package.module:Name` reaches a part outside this package."""
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise SettingsError(f"cannot import {kind} '{name}': {error}") from error
    if name not in _files(kind):
        raise unknown_name(kind, name, part_names(kind))
    return importlib.import_module(f"{KINDS[kind]}.{name.replace('-', '_')}").COMPONENT


def describe_part(kind: str, name: str) -> str:
    """The first line of the part's file, without importing it (listing must not wait for torch)."""
    return _docstring(kind, name).partition("\n")[0]


def part_notes(kind: str, name: str) -> dict[str, str]:
    """What the part's file says as `Rule: …` and the like, by the word in lower case; not imported either.

    An entry ends at the next one or at an empty line. Its lines are joined, but one that is indented stays a line.

    >>> part_notes("negatives", "dns")["rule"].splitlines()[0]
    'j = argmax_{k ∈ C} s_uk'
    """
    notes: dict[str, str] = {}
    entry = None
    for line in _docstring(kind, name).splitlines()[1:]:
        word, colon, rest = line.partition(": ")
        if not line:
            entry = None
        elif colon and word in NOTES:
            entry = word.lower()
            notes[entry] = rest
        elif entry:
            notes[entry] += ("\n" if line.startswith(" ") else " ") + line.strip()
    return notes


def authors_and_year(paper: str) -> str:
    """The reference in short, without the title.

    >>> authors_and_year("Rendle et al. 2009, BPR: Bayesian Personalized Ranking from Implicit Feedback")
    'Rendle et al. 2009'
    """
    return re.split(r"(?<=\d{4}), ", paper, maxsplit=1)[0]


def part_name(kind: str, part: object) -> str:
    """The name under which users reach this part."""
    module = type(part).__module__
    package, _, stem = module.rpartition(".")
    if package == KINDS[kind]:
        return stem.replace("_", "-")
    return f"{module}:{type(part).__qualname__}"


def field_notes(settings: type) -> dict[str, str]:
    """Field → the docstring written under it, so that help texts are written once, beside the field."""
    notes: dict[str, str] = {}
    for owner in reversed(settings.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, following in zip(body.body, body.body[1:], strict=False):
            match line, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as note)),
                ):
                    notes[name] = " ".join(note.split())
    return notes


def _docstring(kind: str, name: str) -> str:
    return ast.get_docstring(ast.parse(_files(kind)[name].read_text(encoding="utf-8"))) or ""


def _files(kind: str) -> dict[str, Path]:
    if kind not in KINDS:
        raise unknown_name("kind of part", kind, KINDS)
    spec = importlib.util.find_spec(KINDS[kind])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return {
        path.stem.replace("_", "-"): path
        for folder in spec.submodule_search_locations
        for path in Path(folder).glob("*.py")
        if not path.stem.startswith("_")
    }
