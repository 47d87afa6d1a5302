"""Carrying out experiments: cells that can, train in one loop; every record is written as soon as it is known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pspns.components import find_part
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Data, Experiment
from pspns.experiments.records import Records, describe_cell
from pspns.run import Say, run_together
from pspns.settings import PART_SECTIONS, Settings
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
        _check_names(cells)
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
    """Cells that may share a loop, side by side, as many as the device is worth; in the order given where it may be."""
    found: list[list[Cell]] = []
    with_room: dict[str, list[tuple[list[Cell], int]]] = {}
    for cell in cells:
        settings = cell.settings(terms, cell.data)
        n_replicas = len(settings.run.seeds)
        company = with_room.setdefault(_shared(settings), [])
        place = next((number for number, (_, room) in enumerate(company) if n_replicas <= room), None)
        if place is None:
            found.append([cell])
            company.append((found[-1], MOST_REPLICAS - n_replicas))
        else:
            loop, room = company[place]
            loop.append(cell)
            company[place] = (loop, room - n_replicas)
    return found


def _shared(settings: Settings) -> str:
    """The same of cells that `run_together` takes: what must not differ between the members of a loop."""
    run, training = vars(settings.run), vars(settings.training)
    own = {"positives", "weighting", "start", "training", "run"}
    pairs: tuple[Any, ...] = ()
    if getattr(settings.model, "graph", "train") != "train":
        # Pairs that are the graph are the same only of one SVD, which a start may make wider.
        pairs = (settings.positives, settings.start, settings.run.protocol)
    return repr((
        [(section, value) for section, value in vars(settings).items() if section not in own],
        [(key, value) for key, value in training.items() if key != "l2"],
        [(key, value) for key, value in run.items() if key not in {"seeds", "protocol", "baselines"}],
        find_protocol(settings.run.protocol).needs_validation,
        pairs,
    ))  # fmt: skip


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
    """What a result depends on, as it comes back from JSON; a key that did not exist then is at its default."""
    plain = Settings().as_dict()
    found: dict[str, dict[str, Any]] = {}
    for section, entries in settings.items():
        kind = PART_SECTIONS.get(section)
        defaults = dataclasses.asdict(find_part(kind, entries["name"])()) if kind else plain[section]
        without = WITHOUT_MEANING.get(section, set())
        found[section] = {key: value for key, value in {**defaults, **entries}.items() if key not in without}
    meant: dict[str, dict[str, Any]] = json.loads(json.dumps(found))
    return meant


def _check_names(cells: Iterable[Cell]) -> None:
    """Two cells of one name would be one record, the second in place of the first."""
    by_name: dict[str, Cell] = {}
    for cell in cells:
        if by_name.setdefault(cell.name, cell) != cell:
            raise ValueError(f"{cell} and {by_name[cell.name]} have the same name, {cell.name}")
