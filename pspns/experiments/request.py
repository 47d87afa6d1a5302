"""What is asked for: which experiments, on which data, under which terms."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pspns.errors import SettingsError, StoppedError
from pspns.experiments.cells import Terms
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.experiments.sections import Section

ALL = "all"
CELLS, UNFINISHED = "cells", "unfinished"
"""Folders of records, and of what stopped trainings have come to."""
PAGE = "reproduction.html"
MOST_SEEDS = 10_000
"""As many as one run may have."""
QUICK = Terms(
    max_steps=200,
    patience=3,
    seeds=2,
    trials=2,
    changes=(
        ("model.embedding_size", 16),
        ("training.evaluate_every", 50),
        ("training.batch_size", 1024),
        ("training.learning_rate", 0.02),
        ("evaluation.inactive", 100),
    ),
)
"""So little that all of it is over in a minute or two, and shows how things look rather than how they are. What is
changed marks a record as one of a quick look."""
QUICK_DATA = ("planted-clustered",)
QUICK_WORDS = (
    "A quick look: few steps, few seeds and small vectors. It shows that everything runs, and how the page looks; its "
    "figures mean little."
)


def asked_experiments(names: Sequence[str]) -> dict[str, Experiment]:
    """By name, in the order of the report; `all` is all of them."""
    # Which knows what a mistaken name may have meant.
    found = {name: find_experiment(name) for name in names if name != ALL}
    if ALL in names:
        found = {name: find_experiment(name) for name in experiment_names()}
    return {name: found[name] for name in experiment_names() if name in found}


def by_data(
    experiments: Mapping[str, Experiment], data: Sequence[str] | None, *, only_usual: bool = False
) -> dict[str, list[Experiment]]:
    """Data set → what is run on it: every experiment on all that are named, or else each on its own. `only_usual`: each
    on those of the named ones that are its own."""
    names = dict.fromkeys(name for one in experiments.values() for name in (one.data if data is None else data))
    on_all = data is not None and not only_usual
    found = {name: [one for one in experiments.values() if on_all or name in one.data] for name in names}
    if not any(found.values()):
        usual = dict.fromkeys(itertools.chain.from_iterable(one.data for one in experiments.values()))
        raise SettingsError(
            f"none of {', '.join(names)} is what {', '.join(experiments)} is usually on, which is {', '.join(usual)}; "
            "name the file so, or leave out --usual"
        )
    return found


def sections_of(
    experiments: Mapping[str, Experiment], wanted: Mapping[str, Sequence[Experiment]], records: Records
) -> list[Section]:
    """What the records show; a quick look says of itself that it is one."""
    sections = [one.section(records, [name for name in wanted if one in wanted[name]]) for one in experiments.values()]
    return [noted(section, records) for section in sections]


def noted(section: Section, records: Records) -> Section:
    return dataclasses.replace(section, words=(QUICK_WORDS, *section.words)) if is_quick_look(records) else section


def is_quick_look(records: Records) -> bool:
    """Whether some of the records come from a quick look; whoever shows them need not have been told."""
    small = [(*key.split("."), value) for key, value in QUICK.changes]
    for path in records.folder.glob("*.json"):
        settings = (records.find(path.stem) or {}).get("settings") or {}
        if all(settings.get(section, {}).get(entry) == value for section, entry, value in small):
            return True
    return False


def terms_of(*, quick: bool = False, **given: Any) -> Terms:
    """The usual terms, or those of a quick look, with what was said otherwise; what is None was not said."""
    for name in ("max_steps", "patience", "seeds", "trials"):
        if given.get(name) is not None and given[name] < 1:
            raise SettingsError(f"--{name.replace('_', '-')} must be at least 1, got {given[name]}")
    if (given.get("seeds") or 0) > MOST_SEEDS:
        raise SettingsError(f"--seeds must be at most {MOST_SEEDS:,}, got {given['seeds']:,}; it is how many seeds")
    said = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(QUICK if quick else Terms(), **said)


def check_out(out: Path) -> None:
    """Better now than after the first training."""
    for folder in (out, out / CELLS, out / UNFINISHED):
        if folder.exists() and not folder.is_dir():
            raise SettingsError(f"--out must be a folder, and {folder} is a file; give another one")
    if (out / PAGE).is_dir():
        raise SettingsError(f"{out / PAGE} is a folder, where the page is to be; give another --out")


def stopped(out: Path, exit_code: int) -> StoppedError:
    """What to say when the user ends it."""
    found = any(path.is_file() for folder in (CELLS, UNFINISHED) for path in (out / folder).rglob("*"))
    kept = (
        f"what was found is kept in {out}: give the same command to go on" if found else f"nothing was written to {out}"
    )
    told = StoppedError(f"stopped before the end; {kept}")
    told.exit_code = exit_code
    return told
