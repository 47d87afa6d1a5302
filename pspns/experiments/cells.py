"""Cells: the trainings that experiments are made of. Each is run once and kept, whichever experiments show it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pspns.experiments._members import Tables, changed, make_settings
from pspns.experiments.methods import method_tables
from pspns.settings import Settings

SEEDS = 3
SEEDS_OF_HEADLINE = 10
HEADLINE = ("uniform", "psp-ns")
"""The methods of the paper's claim, which have more seeds."""


@dataclass(frozen=True)
class Terms:
    """What all cells of a reproduction share: how long training may take, and where it runs."""

    max_steps: int = 200_000
    patience: int = 10
    seeds: int | None = None  # unset: 10 of RNS and PSP-NS as they are, 3 of the rest
    device: str = "auto"
    precision: str = "float32"
    changes: tuple[tuple[str, Any], ...] = ()  # over every cell's own: what a quick look makes smaller
    trials: int = 5  # of every method that is tuned, its defaults among them

    def tables(self, n_seeds: int) -> Tables:
        return {
            "training": {"max_steps": self.max_steps, "patience": self.patience, "precision": self.precision},
            "run": {"seeds": tuple(range(n_seeds)), "device": self.device},
        }

    def of_job(self) -> dict[str, Any]:
        """What a measurement may depend on, as JSON has it; where it runs stands in its record anyway."""
        changes = [[key, value] for key, value in self.changes]
        found: dict[str, Any] = json.loads(json.dumps({**vars(self), "changes": changes}))
        return {key: value for key, value in found.items() if key not in ("device", "trials")}


@dataclass(frozen=True)
class Cell:
    """A method on a data set with a model under a protocol; its record's name tells all of it.

    >>> Cell("ml-1m", "lightgcn", "psp-ns", "published", (("positives.rank", 30),)).name
    'lightgcn-ml-1m-psp-ns-published-rank-30'
    """

    data: str
    model: str
    method: str
    protocol: str = "strict"
    changes: tuple[tuple[str, Any], ...] = ()
    """Settings away from the method's own, such as ("positives.rank", 30)."""
    alone: bool = False
    """Trained in a loop of its own while no other process that shares the work is at anything, so that the seconds are
    its own, too."""

    @property
    def name(self) -> str:
        words = [self.model, self.data, self.method, self.protocol]
        for key, value in self.changes:
            section, _, entry = key.partition(".")
            words += [section if entry == "name" else entry.replace("_", "-"), _plain(value)]
        return "-".join([*words, "alone"] if self.alone else words)

    @property
    def n_seeds(self) -> int:
        return SEEDS_OF_HEADLINE if self._is_headline else SEEDS

    def but(self, **changes: Any) -> Cell:
        """The cell with other fields."""
        return replace(self, **changes)

    def settings(self, terms: Terms, source: str) -> Settings:
        """All settings of the training; `source` is where the data came from."""
        own: Tables = {
            "data": {"source": source},
            "model": {"name": self.model},
            "run": {"protocol": self.protocol, "baselines": self._shows_baselines},
        }
        tables = changed(method_tables(self.method), terms.tables(terms.seeds or self.n_seeds), own)
        for key, value in (*terms.changes, *self.changes):
            section, _, entry = key.partition(".")
            tables = changed(tables, {section: {entry: value}})
        training = tables["training"]
        if training.get("steps"):  # a fixed number is no more than all may take
            training["steps"] = min(training["steps"], terms.max_steps)
        return make_settings(tables)

    @property
    def _shows_baselines(self) -> bool:
        """They are the same beside every method, so one of them will do; under `published` they depend on the mask."""
        return self._is_headline

    @property
    def _is_headline(self) -> bool:
        return self.method in HEADLINE and not self.changes and not self.alone


def _plain(value: Any) -> str:
    """As it may stand in a file's name.

    >>> _plain(0.005), _plain("per-user"), _plain(True), _plain((0, 1))
    ('0.005', 'per-user', 'yes', '0-1')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "-".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
