"""The paper's tables and claims where there is numpy and torch but no table, settings or terminal library.

    python -m pspns.experiments overall mf --data ml-1m.npz,epinions.npz --out reproduction --device cuda

What it writes is what `pspns experiment` writes, but for the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pspns.cli.interruption import Interruption  # which needs nothing of the kind
from pspns.data.arrays import read_arrays
from pspns.errors import SettingsError
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.due import check_only, tuned_name, what_is_due
from pspns.experiments.experiment import Experiment
from pspns.experiments.loops import loops
from pspns.experiments.records import Records
from pspns.experiments.reproduction import experiment_names
from pspns.experiments.request import CELLS, UNFINISHED, asked_experiments, by_data, check_out, stopped, terms_of
from pspns.experiments.trials import Trials, trial_terms
from pspns.training.stopping import Evaluation


def run(words: Sequence[str]) -> None:
    options = _parser().parse_args(words)
    files = _files(options.data)
    wanted = by_data(asked_experiments(options.names), list(files), only_usual=options.usual)
    terms = terms_of(
        quick=options.quick,
        seeds=options.seeds,
        max_steps=options.max_steps,
        patience=options.patience,
        trials=options.trials,
        device=options.device,
        precision=options.precision,
    )
    check_out(options.out)
    records = Records(options.out / CELLS)
    only = [name.strip() for name in options.cells.split(",")] if options.cells else []
    if options.list:
        check_only(wanted, records, only)
        for data, experiments in wanted.items():
            _list(data, experiments, records, terms, keep=options.keep, only=only)
        return
    with Interruption() as interruption:
        try:
            carry_out(
                wanted,
                records,
                terms,
                lambda name: read_arrays(files[name]),
                keep=options.keep,
                only=only,
                unfinished=options.out / UNFINISHED,
                watch=interruption.watch_too(_watch),
                say=_say,
            )
        except KeyboardInterrupt as error:
            raise stopped(options.out, interruption.exit_code) from error
    _say(f"the records are in {records.folder}; pspns experiment … --out {options.out} --only-report shows them")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pspns.experiments", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"{', '.join(experiment_names())}; or all")
    parser.add_argument("--data", required=True, help="files of pspns.data.arrays.write_arrays, comma between them")
    parser.add_argument(
        "--usual", action="store_true", help="each experiment on those of the data that it is usually on"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of records")
    parser.add_argument("--quick", action="store_true", help="a look at how it works")
    parser.add_argument("--seeds", type=int, help="of every training; unset: 10 or 3")
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--patience", type=int)
    parser.add_argument("--trials", type=int, help="settings tried of each method that is tuned")
    parser.add_argument("--device")
    parser.add_argument("--precision", help="float32 or mixed")
    parser.add_argument("--keep", action="store_true", help="take records that are there, whatever their settings")
    parser.add_argument("--cells", default="", help="only these records, comma between them")
    parser.add_argument("--list", action="store_true", help="name the records that would be made, and train nothing")
    return parser


def _files(text: str) -> dict[str, Path]:
    """Data set → file; it is called after its file."""
    files: dict[str, Path] = {}
    for piece in text.split(","):
        path = Path(piece.strip())
        if not path.is_file():
            raise SettingsError(
                f"--data: there is no file '{piece.strip()}'; write one with pspns.data.arrays.write_arrays"
            )
        if path.stem in files:
            raise SettingsError(f"--data has two files called {path.stem}, {files[path.stem]} and {path}; rename one")
        files[path.stem] = path
    return files


def _list(
    data: str, experiments: Sequence[Experiment], records: Records, terms: Terms, *, keep: bool, only: Sequence[str]
) -> None:
    """A line for each record: its name, how many replicas, and what they share a loop with."""
    due = what_is_due(data, experiments, records, terms, keep=keep, only=only)
    for number, loop in enumerate(loops(due.cells, terms), 1):
        for cell in loop:
            _line(cell.name, _n_replicas(cell, terms), f"loop {number}")
    short = trial_terms(terms)
    owners = {cell.name: unit for unit in due.trials for cell in unit.cells(terms)}
    place: dict[Trials, list[str]] = {}
    for number, loop in enumerate(loops([cell for unit in due.trials for cell in unit.cells(terms)], short), 1):
        for cell in loop:
            place.setdefault(owners[cell.name], []).append(str(number))
    for unit, numbers in place.items():
        _line(unit.name, len(numbers), f"trial loops {' '.join(dict.fromkeys(numbers))}")
    for cell in due.after_trials:
        _line(tuned_name(cell), terms.seeds or cell.but(changes=(("", 0),)).n_seeds, "after its trials")
    for job in due.jobs:
        _line(job.name, 0, "job")


def _n_replicas(cell: Cell, terms: Terms) -> int:
    return len(cell.settings(terms, cell.data).run.seeds)


def _line(name: str, n_replicas: int, where: str) -> None:
    print(f"{name}\t{n_replicas} replicas\t{where}", flush=True)


def _say(line: str) -> None:
    print(line, flush=True)


def _watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    if evaluation:
        found = " ".join(f"{100 * metrics['recall@20']:.2f}" for metrics in evaluation.metrics.values())
        _say(f"step {step:,} ({evaluation.seconds:.0f} s): validation recall@20 {found}")
