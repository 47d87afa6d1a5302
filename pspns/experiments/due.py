"""What of the experiments has no record yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pspns.errors import SettingsError, unknown_name
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Experiment, Job
from pspns.experiments.records import Records
from pspns.experiments.same_settings import check_same
from pspns.experiments.trials import Trials, tuned_cell


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

    def but(self, names: Collection[str]) -> Due:
        """Without the cells and jobs of these names."""
        return replace(
            self,
            cells=[cell for cell in self.cells if cell.name not in names],
            jobs=[job for job in self.jobs if job.name not in names],
        )


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

    units, cells, jobs = needed(data, experiments)
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
        units, cells, jobs = needed(data, experiments)
        known |= {job.name for job in jobs} | {cell.name for cell in cells}
        for unit in units:
            tuned = tuned_cell(records, unit.of)
            known |= {unit.name, tuned_name(unit.of), *([tuned.name] if tuned else [])}
    return known


def needed(data: str, experiments: Sequence[Experiment]) -> tuple[list[Trials], list[Cell], list[Job]]:
    """What these experiments show, each once."""
    return (
        list(dict.fromkeys(Trials(cell) for one in experiments for cell in one.tuned(data))),
        list(dict.fromkeys(cell for one in experiments for cell in one.cells(data))),
        list({job.name: job for one in experiments for job in one.jobs(data)}.values()),
    )


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
