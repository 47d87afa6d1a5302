"""Carrying out experiments: trials, cells, jobs; every record is written as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pspns.errors import DivergedError, PspnsError, SettingsError, StoppedError
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.due import Due, check_only, needed, what_is_due
from pspns.experiments.experiment import Data, Experiment, Job
from pspns.experiments.loops import BegunOtherwiseError, forget_what_was_finished, loops, trained
from pspns.experiments.records import Records, UnwritableError, describe_cell
from pspns.experiments.same_settings import check_same_data
from pspns.experiments.sharing import Sharing
from pspns.experiments.telling import Telling
from pspns.experiments.trials import Trials, hold, in_company, tried
from pspns.memory import MemoryBudgetError
from pspns.run import Say, choose_device
from pspns.training.loop import Watch

PAUSE, LOOKING = 2.0, 0.05
"""Seconds between two looks at whether other processes are done; more where a look would take more than this share of
the time, which is somebody else's when seconds are measured."""
NAMES_TOLD = 3


class NotTrainedError(PspnsError):
    """Some of what was asked for could not be trained; the rest has records."""


Load = Callable[[str], Data]
"""A data set by its name."""


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
    settings it was made with. `only`: names of records; empty: all. What a training that is stopped has come to is kept
    in the folder `unfinished`, if there is to be one, and the same call goes on from there. Several processes that have
    this folder in common share the work, and each ends when all of it is done.
    """
    choose_device(terms.device)  # better to hear of one that is not there before the data are read
    check_only(wanted, records, only)
    telling = Telling(watch, say, unfinished)
    works = [
        Work(name, experiments, records, terms, load, telling, keep=keep, only=only)
        for name, experiments in wanted.items()
    ]
    for work in works:
        if not keep and not work.due():
            work.check()
    left, is_waiting = works, False
    while left:
        began = time.perf_counter()
        n_took_some = sum(work.take() for work in left)
        left = [work for work in left if work.due()]
        if left and not n_took_some:
            if not is_waiting:
                say(f"waiting for other processes; not done yet: {_in_short(left[0].due())}")
            time.sleep(max(PAUSE, (time.perf_counter() - began) / LOOKING))
        is_waiting = not n_took_some
    if unfinished:
        forget_what_was_finished(unfinished, {path.stem for path in records.folder.glob("*.json")} | tried(records))
    failed = [error for work in works for error in work.errors]
    if failed:
        how_many = "1 loop or job" if len(failed) == 1 else f"{len(failed)} loops and jobs"
        told = NotTrainedError(f"{failed[0]}; {how_many} could not be carried out, and all others have records")
        told.exit_code = failed[0].exit_code
        raise told from failed[0]


def _in_short(due: Due) -> str:
    names = [cell.name for cell in due.cells] + [unit.name for unit in due.trials] + [job.name for job in due.jobs]
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return f"{', '.join(names[:NAMES_TOLD])}{more}"


@dataclass
class Work:
    """What is to be done with one data set, taken loop by loop and job by job: all that no other process is at."""

    name: str
    experiments: Sequence[Experiment]
    records: Records
    terms: Terms
    load: Load
    telling: Telling
    keep: bool
    only: Collection[str]
    errors: list[PspnsError] = field(default_factory=list)
    """Of what could not be carried out."""
    _failed: set[str] = field(default_factory=set)
    _took_some: bool = False
    _is_told: bool = False

    def due(self) -> Due:
        """What has no record yet and may still come to one."""
        due = what_is_due(self.name, self.experiments, self.records, self.terms, keep=self.keep, only=self.only)
        return due.but(self._failed)

    def check(self) -> None:
        """Nothing is left to make: even so, what is there must be of the data that are given."""
        self._load()

    def take(self) -> bool:
        """Whether there was anything to take."""
        due = self.due()
        if not self._is_told:
            self.telling.say(f"{self.name}: {due.n_records} records, {len(due)} of them to be made")
            self._is_told = True
        self._took_some = False
        data = cache(self._load)  # not before something is taken, and no longer than this
        self._train(due.cells, data)
        if due.trials or due.after_trials:  # after the cells, whose beginnings are trials
            self._try(due.trials, data)
            self._train([cell for cell in self.due().cells if cell not in due.cells], data)
        self._measure(due.jobs, data)
        return self._took_some

    def _load(self) -> Data:
        self._took_some = True
        data = self.load(self.name)
        if not self.keep:
            units, cells, jobs = needed(self.name, self.experiments)
            others = [
                name for name in (*(unit.name for unit in units), *(job.name for job in jobs)) if self.records.has(name)
            ]
            done = [cell for cell in cells if self.records.has(cell.name)]
            check_same_data(self.name, data, done, others, self.records, self.terms)
        return data

    def _train(self, cells: Sequence[Cell], data: Callable[[], Data]) -> None:
        waiting, done = loops(cells, self.terms), 0
        while waiting:
            loop = waiting.pop(0)
            with Sharing(self.telling.unfinished).taken([cell.name for cell in loop], alone=loop[0].alone) as ours:
                # Others may have made some meanwhile.
                loop = [cell for cell in loop if cell.name in ours and not self.records.has(cell.name)]
                if not loop:
                    continue
                of_all = f"training {done + 1} to {done + len(loop)} of {len(cells)}"
                halves = self._train_together(loop, data(), of_all)
            waiting[:0] = halves
            done += 0 if halves else len(loop)

    def _train_together(self, loop: Sequence[Cell], data: Data, of_all: str) -> list[list[Cell]]:
        """Write the records; if that cannot be, perhaps it can with these parts of the loop."""
        names = [cell.name for cell in loop]
        self.telling.say(f"{of_all}: {', '.join(names)}")
        try:
            with trained(loop, data, self.terms, self.telling) as runs:
                for cell, run in zip(loop, runs, strict=True):
                    self.records.write(cell.name, describe_cell(run, cell, names))
        except (StoppedError, UnwritableError):  # which the others would meet, too
            raise
        except PspnsError as error:
            of_one = isinstance(error, DivergedError | MemoryBudgetError | SettingsError)
            if len(loop) > 1 and of_one and not isinstance(error, BegunOtherwiseError):
                self.telling.say(f"{error}; half of them at a time, then")
                return [list(loop[: len(loop) // 2]), list(loop[len(loop) // 2 :])]
            self._fail("trained", names, error)
        return []

    def _try(self, units: Sequence[Trials], data: Callable[[], Data]) -> None:
        """Hold the trials of whatever has its record, or cannot have one."""
        waiting_for = {cell.name for cell in self.due().cells}
        for group in in_company(units, self.terms):
            if not waiting_for.isdisjoint(unit.of.name for unit in group):
                continue  # with another process
            names = [unit.name for unit in group]
            with Sharing(self.telling.unfinished).taken(names) as ours:
                left = [unit for unit in group if not unit.is_done(self.records, self.terms, keep=self.keep)]
                if ours == names and left:
                    hold(left, data(), self.records, self.terms, self.telling)

    def _measure(self, jobs: Sequence[Job], data: Callable[[], Data]) -> None:
        for job in jobs:
            with Sharing(self.telling.unfinished).taken([job.name], alone=job.alone) as ours:
                if not ours or self.records.has(job.name):
                    continue
                found_data = data()
                self.telling.say(f"{job.data}, {job.name}")
                try:
                    with self.telling.place(f"{job.name}.job") as place:
                        found = job.measure(found_data, self.terms, replace(self.telling, unfinished=place))
                        self.records.write(job.name, {**found, "terms": self.terms.of_job()})
                except (StoppedError, UnwritableError):
                    raise
                except PspnsError as error:
                    self._fail("measured", [job.name], error)

    def _fail(self, what: str, names: Sequence[str], error: PspnsError) -> None:
        self.telling.say(f"not {what}: {', '.join(names)}: {error}")
        self.errors.append(error)
        self._failed |= set(names)
