"""What the PSP-NS paper prints, from `paper.toml`: the one place that has its figures."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from pspns.errors import unknown_name

PLAIN = {"positives": "observed", "weighting": "none", "negatives": "uniform", "denoiser": "none"}
"""The parts of a method that the file does not name."""


@dataclass(frozen=True, kw_only=True)
class Method:
    name: str
    paper: str
    """What the paper calls it."""
    parts: Mapping[str, str]
    """Section of the settings → name of the part."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    name: str
    paper: str
    """What the paper calls it."""
    users: int
    items: int
    interactions: int
    density_percent: float
    split: str
    ranks: tuple[int, ...]
    """What was tried of the rank q."""
    construction_seconds: float
    variation_percent: Mapping[str, float]
    """Metric → how far PSP-NS varies over seeds, at most."""
    parts: Mapping[str, int] | None = None
    """Pairs of train, validation and test, where printed."""
    note: str = ""
    """What is wrong with the counts."""


@dataclass(frozen=True, kw_only=True)
class FigureNote:
    """Why a printed figure cannot be right."""

    data: str
    method: str
    metric: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str
    title: str
    number: int
    """As the paper's source compiles."""
    called: tuple[int, ...]
    """As its text calls the table, most often first."""
    model: str = ""
    metrics: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]] = field(default_factory=dict)
    """Group of users (all; inactive, other) → data → method → one figure for each metric, in percent."""
    notes: tuple[FigureNote, ...] = ()
    note: str = ""

    @property
    def data(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(data for group in self.figures.values() for data in group))

    @property
    def methods(self) -> tuple[str, ...]:
        groups = self.figures.values()
        return tuple(dict.fromkeys(method for group in groups for rows in group.values() for method in rows))


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Of pictures nothing is known but what the text says of them."""

    name: str
    title: str
    number: str
    called: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every method of `better` is above every one of `worse`."""

    better: tuple[str, ...]
    worse: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClaimException:
    """A comparison that the printed figures do not bear out."""

    data: str
    metric: str
    better: str
    worse: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    name: str
    says: str
    """In our words."""
    sections: tuple[str, ...]
    shown_in: str = ""
    """Name of the table or picture."""
    number: str = ""
    """That table or picture as the paper's source compiles."""
    called: str = ""
    """… and as the passage that makes the claim calls it."""
    comparisons: tuple[Comparison, ...] = ()
    data: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    percent: float | None = None
    """How far the better is above the best of the worse."""
    often: bool = False
    """Whether the comparisons are said to hold often, rather than always."""
    exceptions: tuple[ClaimException, ...] = ()
    note: str = ""


def printed(table: str, data: str, model: str, method: str, metric: str, *, users: str = "all") -> float | None:
    """A figure in percent as the paper prints it, or None where it prints none.

    >>> printed("overall", "ml-1m", "lightgcn", "psp-ns", "recall@20")
    39.56
    >>> printed("inactive-users", "ml-1m", "lightgcn", "psp-ns", "recall@20", users="inactive")
    42.97
    >>> printed("overall", "gowalla", "lightgcn", "psp-ns", "recall@20") is None
    True
    """
    if table not in tables():
        raise unknown_name("table", table, tables())
    found = tables()[table]
    row = found.figures.get(users, {}).get(data, {}).get(method)
    if row is None or model != found.model or metric not in found.metrics:
        return None
    return row[found.metrics.index(metric)]


def paper() -> Mapping[str, Any]:
    """Title and authors.

    >>> paper()["authors"][0]
    'Jiayi Wu'
    """
    found: Mapping[str, Any] = _file()["paper"]
    return found


@cache
def tables() -> Mapping[str, Table]:
    """By name, in the paper's order."""
    return {name: _table(name, entries) for name, entries in _file()["tables"].items()}


@cache
def pictures() -> Mapping[str, Picture]:
    return {
        name: Picture(name=name, **entries | {"called": tuple(entries["called"])})
        for name, entries in _file()["pictures"].items()
    }


@cache
def claims() -> Mapping[str, Claim]:
    """By name, in the paper's order."""
    return {entries["name"]: _claim(entries) for entries in _file()["claims"]}


@cache
def methods() -> Mapping[str, Method]:
    """Every method of a table or claim by our name."""
    found = {}
    for name, entries in _file()["methods"].items():
        parts = {section: entries.get(section, plain) for section, plain in PLAIN.items()}
        found[name] = Method(name=name, paper=entries["paper"], parts=parts)
    return found


@cache
def data_sets() -> Mapping[str, DataSet]:
    return {
        name: DataSet(name=name, **entries | {"ranks": tuple(entries["ranks"])})
        for name, entries in _file()["data"].items()
    }


def settings() -> Mapping[str, Mapping[str, Any]]:
    """What the paper states of its settings: section → key → value, as a settings file has them."""
    found: Mapping[str, Mapping[str, Any]] = _file()["settings"]
    return found


def grids() -> Mapping[str, tuple[float, ...]]:
    """What was tried of a setting; of the rank, which depends on the data set, see `DataSet.ranks`."""
    return {name: tuple(values) for name, values in _file()["grids"].items()}


def terms() -> Mapping[str, Any]:
    """What else the paper says of its runs, and what it does not say."""
    found: Mapping[str, Any] = _file()["terms"]
    return found


def _table(name: str, entries: dict[str, Any]) -> Table:
    figures = {
        users: {data: {method: tuple(row) for method, row in rows.items()} for data, rows in group.items()}
        for users, group in entries.get("figures", {}).items()
    }
    exact = {
        "called": tuple(entries["called"]),
        "metrics": tuple(entries.get("metrics", ())),
        "figures": figures,
        "notes": tuple(FigureNote(**note) for note in entries.get("notes", ())),
    }
    return Table(name=name, **entries | exact)


def _claim(entries: dict[str, Any]) -> Claim:
    """What a claim leaves out is all that its table has."""
    shown_in = entries.get("shown_in", "")
    table, picture = tables().get(shown_in), pictures().get(shown_in)
    of_table = {"data": table.data, "metrics": table.metrics, "users": tuple(table.figures)} if table else {}
    lists = {key: tuple(entries.get(key, of_table.get(key, ()))) for key in ("sections", "data", "metrics", "users")}
    exact = {
        "number": f"Table {table.number}" if table else f"Figure {picture.number}" if picture else "",
        "comparisons": tuple(_comparison(comparison, table) for comparison in entries.get("comparisons", ())),
        "exceptions": tuple(ClaimException(**exception) for exception in entries.get("exceptions", ())),
    }
    return Claim(**entries | lists | exact)


def _comparison(entries: dict[str, list[str]], table: Table | None) -> Comparison:
    better = tuple(entries["better"])
    others = tuple(method for method in table.methods if method not in better) if table else ()
    return Comparison(better=better, worse=tuple(entries.get("worse", others)))


@cache
def _file() -> dict[str, Any]:
    text = resources.files("pspns.experiments").joinpath("paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
