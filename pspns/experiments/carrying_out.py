"""Carrying out experiments: trials, cells, jobs; every record is written as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pspns.errors import DivergedError, PspnsError, SettingsError, StoppedError, unknown_name
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Data, Experiment, Job
from pspns.experiments.loops import BegunOtherwiseError, forget_what_was_finished, loops, trained
from pspns.experiments.records import Records, UnwritableError, describe_cell
from pspns.experiments.same_settings import check_same, check_same_data
from pspns.experiments.telling import Telling
from pspns.experiments.trials import Trials, hold, tried, tuned_cell
from pspns.memory import MemoryBudgetError
from pspns.run import Say, choose_device
from pspns.training.loop import Watch


class NotTrainedError(PspnsError):
    """Some of what was asked for could not be trained; the rest has records."""


Load = Callable[[str], Data]
"""A data set by its name."""


@dataclass(frozen=True)
class Due:
    """What has no record yet, of one data set."""

    trials: list[Trials]
    cells: list[Cell]
    after_trials: list[Cell]
    """Will be trained with what their trials choose."""
    jobs: list[Job]
    n_records: int
    """Those that are there, too."""

    def __len__(self) -> int:
        return len(self.trials) + len(self.cells) + len(self.after_trials) + len(self.jobs)


def carry_out(
    wanted: Mapping[str, Sequence[Experiment]],
    records: Records,
    terms: Terms,
    load: Load,
    *,
    keep: bool = False,
    only: Collection[str] = (),
    unfinished: Path | None = None,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> None:
    """Run what has no record yet: of each data set these experiments. What they share is run once.

    What cannot be trained does not hold up the others, and is an error in the end. With `keep` a record counts whatever
    settings it was made with. `only`: names of records; empty: all. What a
    training that is stopped has come to is kept in the folder `unfinished`, if there is to be one, and the same call
    goes on from there.
    """
    choose_device(terms.device)  # better to hear of one that is not there before the data are read
    check_only(wanted, records, only)
    telling = Telling(watch, say, unfinished)
    failed: list[PspnsError] = []
    for name, experiments in wanted.items():
        due = what_is_due(name, experiments, records, terms, keep=keep, only=only)
        say(f"{name}: {due.n_records} records, {len(due)} of them to be made")
        if not due:
            continue
        data = load(name)
        if not keep:
            check_same_data(name, data, *_done(name, experiments, records), records, terms)
        failed += _train(due.cells, data, records, terms, telling)
        if due.trials:  # after the cells, whose beginnings are trials
            hold(due.trials, data, records, terms, telling)
            chosen = what_is_due(name, experiments, records, terms, keep=keep, only=only).cells
            failed += _train([cell for cell in chosen if cell not in due.cells], data, records, terms, telling)
        failed += _measure(due.jobs, data, records, terms, telling)
    if unfinished:
        forget_what_was_finished(unfinished, {path.stem for path in records.folder.glob("*.json")} | tried(records))
    if failed:
        how_many = "1 loop or job" if len(failed) == 1 else f"{len(failed)} loops and jobs"
        told = NotTrainedError(f"{failed[0]}; {how_many} could not be carried out, and all others have records")
        told.exit_code = failed[0].exit_code
        raise told from failed[0]


def _train(cells: Sequence[Cell], data: Data, records: Records, terms: Terms, telling: Telling) -> list[PspnsError]:
    """Write the records; what went wrong with those that have none comes back."""
    failed: list[PspnsError] = []
    waiting, done = loops(cells, terms), 0
    while waiting:
        loop = [cell for cell in waiting.pop(0) if not records.has(cell.name)]  # others may have made some meanwhile
        if not loop:
            continue
        names = [cell.name for cell in loop]
        telling.say(f"training {done + 1} to {done + len(loop)} of {len(cells)}: {', '.join(names)}")
        try:
            with trained(loop, data, terms, telling) as runs:
                for cell, run in zip(loop, runs, strict=True):
                    records.write(cell.name, describe_cell(run, cell, names))
            done += len(loop)
        except (StoppedError, UnwritableError):  # which the others would meet, too
            raise
        except PspnsError as error:
            of_one = isinstance(error, DivergedError | MemoryBudgetError | SettingsError)
            if len(loop) > 1 and of_one and not isinstance(error, BegunOtherwiseError):
                telling.say(f"{error}; half of them at a time, then")
                waiting[:0] = [loop[: len(loop) // 2], loop[len(loop) // 2 :]]
            else:
                telling.say(f"not trained: {', '.join(names)}: {error}")
                failed.append(error)
    return failed


def _measure(jobs: Sequence[Job], data: Data, records: Records, terms: Terms, telling: Telling) -> list[PspnsError]:
    """Write the records of jobs; what went wrong with those that have none comes back."""
    failed: list[PspnsError] = []
    for job in jobs:
        telling.say(f"{job.data}, {job.name}")
        try:
            with telling.place(f"{job.name}.job") as place:
                found = job.measure(data, terms, replace(telling, unfinished=place))
                records.write(job.name, {**found, "terms": terms.of_job()})
        except (StoppedError, UnwritableError):
            raise
        except PspnsError as error:
            telling.say(f"not measured: {job.name}: {error}")
            failed.append(error)
    return failed


def what_is_due(
    data: str,
    experiments: Sequence[Experiment],
    records: Records,
    terms: Terms,
    *,
    keep: bool = False,
    only: Collection[str] = (),
) -> Due:
    """What has no record yet. A record made with other settings is nobody's to mix with, and so an error."""

    def asked(*names: str) -> bool:
        return not only or any(name in only for name in names)

    units, cells, jobs = _needed(data, experiments)
    asked_cells = [cell for cell in cells if asked(cell.name)]
    asked_units, after_trials = [], []
    for unit in units:
        tuned = tuned_cell(records, unit.of)
        if asked(unit.name, tuned_name(unit.of)):
            asked_units.append(unit)
        if tuned and asked(tuned.name, tuned_name(unit.of)):
            asked_cells.append(tuned)
        elif asked(tuned_name(unit.of)) and not unit.is_done(records, terms, keep=keep):
            after_trials.append(unit.of)
    asked_cells = list(dict.fromkeys(asked_cells))
    _check_names(asked_cells)
    asked_jobs = [job for job in jobs if asked(job.name)]
    return Due(
        trials=[unit for unit in asked_units if not unit.is_done(records, terms, keep=keep)],
        cells=[cell for cell in asked_cells if not _is_done(cell, records, terms, keep=keep)],
        after_trials=after_trials,
        jobs=[job for job in asked_jobs if not _is_measured(job, records, terms, keep=keep)],
        n_records=len(asked_units) + len(asked_cells) + len(after_trials) + len(asked_jobs),
    )


def tuned_name(cell: Cell) -> str:
    """What a cell is called whose settings are still to be chosen."""
    return f"tuned-{cell.name}"


def check_only(wanted: Mapping[str, Sequence[Experiment]], records: Records, only: Collection[str]) -> None:
    """Names that nothing has are mistakes."""
    known = known_names(wanted, records) if only else set()
    for name in only:
        if name not in known:
            raise unknown_name("cell or job", name, known)


def known_names(wanted: Mapping[str, Sequence[Experiment]], records: Records) -> set[str]:
    """Of all records that these experiments may have, and of cells whose settings are still to be chosen."""
    known: set[str] = set()
    for data, experiments in wanted.items():
        units, cells, jobs = _needed(data, experiments)
        known |= {job.name for job in jobs} | {cell.name for cell in cells}
        for unit in units:
            tuned = tuned_cell(records, unit.of)
            known |= {unit.name, tuned_name(unit.of), *([tuned.name] if tuned else [])}
    return known


def _needed(data: str, experiments: Sequence[Experiment]) -> tuple[list[Trials], list[Cell], list[Job]]:
    """What these experiments show, each once."""
    return (
        list(dict.fromkeys(Trials(cell) for one in experiments for cell in one.tuned(data))),
        list(dict.fromkeys(cell for one in experiments for cell in one.cells(data))),
        list({job.name: job for one in experiments for job in one.jobs(data)}.values()),
    )


def _done(data: str, experiments: Sequence[Experiment], records: Records) -> tuple[list[Cell], list[str]]:
    """Cells with a record, and the names of records of trials and jobs."""
    units, cells, jobs = _needed(data, experiments)
    others = [one.name for one in (*units, *jobs) if records.has(one.name)]
    return [cell for cell in cells if records.has(cell.name)], others


def _is_done(cell: Cell, records: Records, terms: Terms, *, keep: bool) -> bool:
    record = records.find(cell.name)
    if record and not keep:
        check_same(records.folder / f"{cell.name}.json", cell.settings(terms, cell.data), record["settings"])
    return record is not None


def _is_measured(job: Job, records: Records, terms: Terms, *, keep: bool) -> bool:
    record = records.find(job.name)
    if record and not keep and record["terms"] != terms.of_job():
        raise SettingsError(
            f"{records.folder / job.name}.json was made on the terms {record['terms']}, and now {terms.of_job()} are "
            "asked for; ask for the same, say --keep to take it as it is, or give another --out"
        )
    return record is not None


def _check_names(cells: Iterable[Cell]) -> None:
    """Two cells of one name would be one record, the second in place of the first."""
    by_name: dict[str, Cell] = {}
    for cell in cells:
        if by_name.setdefault(cell.name, cell) != cell:
            raise ValueError(f"{cell} and {by_name[cell.name]} have the same name, {cell.name}")
