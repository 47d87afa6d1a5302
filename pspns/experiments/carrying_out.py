"""Carrying out experiments: cells that can, train in one loop; every record is written as soon as it is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pspns.errors import SettingsError
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Data, Experiment
from pspns.experiments.records import Records, describe_cell
from pspns.run import Say, run_together
from pspns.settings import Settings
from pspns.training.loop import Watch

MOST_REPLICAS = 12
"""In one loop: more fill the device and gain nothing."""
# What does not change a result, or not what it means.
WITHOUT_MEANING = {"run": {"device", "threads", "memory_gib", "checkpoint_seconds"}, "data": {"source"}}

Load = Callable[[str], Data]
"""A data set by its name."""


def carry_out(
    wanted: Mapping[str, Sequence[Experiment]],
    records: Records,
    terms: Terms,
    load: Load,
    *,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> None:
    """Run what has no record yet: of each data set these experiments. What they share is run once."""
    for name, experiments in wanted.items():
        cells = list(dict.fromkeys(cell for one in experiments for cell in one.cells(name)))
        jobs = list({job.name: job for one in experiments for job in one.jobs(name)}.values())
        due_cells = [cell for cell in cells if not _is_done(cell, records, terms)]
        due_jobs = [job for job in jobs if not records.has(job.name)]
        say(f"{name}: {len(cells) + len(jobs)} records, {len(due_cells) + len(due_jobs)} of them to be made")
        if not due_cells and not due_jobs:
            continue
        data = load(name)
        done = 0
        for loop in loops(due_cells, terms):
            names = ", ".join(cell.name for cell in loop)
            say(f"{name}, training {done + 1} to {done + len(loop)} of {len(due_cells)}: {names}")
            train_loop(loop, data, records, terms, watch=watch, say=say)
            done += len(loop)
        for job in due_jobs:
            say(f"{name}, {job.name}")
            records.write(job.name, job.measure(data, terms, say))


def loops(cells: Iterable[Cell], terms: Terms) -> list[list[Cell]]:
    """Cells that may share a loop, side by side, as many as the device is worth."""

    def shared(cell: Cell) -> str:
        one = cell.settings(terms, cell.data)
        sections = (one.data, one.split, one.model, one.negatives, one.denoiser, one.evaluation, one.run.data_seed)
        training = {key: value for key, value in vars(one.training).items() if key != "l2"}
        # Those with pairs in the graph share a loop only if they share the pairs.
        pairs = (one.positives, one.run.protocol) if getattr(one.model, "graph", "train") != "train" else ()
        return repr((sections, training, pairs))

    found: list[list[Cell]] = []
    for _, group in itertools.groupby(sorted(cells, key=shared), key=shared):
        room = 0
        for cell in group:
            n_replicas = len(cell.settings(terms, cell.data).run.seeds)
            if n_replicas > room:
                found.append([])
                room = MOST_REPLICAS
            found[-1].append(cell)
            room -= n_replicas
    return found


def train_loop(cells: Sequence[Cell], data: Data, records: Records, terms: Terms, *, watch: Watch, say: Say) -> None:
    names = [cell.name for cell in cells]
    runs = run_together(data, [cell.settings(terms, cell.data) for cell in cells], watch=watch, say=say)
    for cell, run in zip(cells, runs, strict=True):
        records.write(cell.name, describe_cell(run, cell, names))


def _is_done(cell: Cell, records: Records, terms: Terms) -> bool:
    """Whether there is a record; one that was made with other settings is nobody's to mix with."""
    record = records.find(cell.name)
    if record is None:
        return False
    wanted, found = _meant(cell.settings(terms, cell.data).as_dict()), _meant(record["settings"])
    for section in sorted(wanted.keys() | found.keys()):
        if wanted.get(section) != found.get(section):
            raise SettingsError(
                f"{records.folder / cell.name}.json was made with [{section}] {found.get(section)}, and now "
                f"{wanted.get(section)} is asked for; ask for the same, or give another --out"
            )
    return True


def _meant(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    plain = Settings().as_dict()
    found = {}
    for section, entries in settings.items():
        kept = {key: value for key, value in entries.items() if key not in WITHOUT_MEANING.get(section, ())}
        # Tuples come back from JSON as lists; a key that did not exist then is at its default.
        defaults = plain.get(section, {}) if "name" not in kept else {}
        found[section] = {
            key: list(value) if isinstance(value, tuple) else value for key, value in ({**defaults, **kept}).items()
        }
        for key in WITHOUT_MEANING.get(section, ()):
            found[section].pop(key, None)
    return found
