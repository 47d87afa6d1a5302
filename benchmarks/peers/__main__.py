"""`make bench-peers`: ours and each rival in turns, and what came out as Markdown and JSON."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks._world import movielens_sized
from benchmarks.peers._contests import CONTESTS, Contest
from benchmarks.peers._given import SIZE, Given
from benchmarks.peers._ours import SUBJECTS, Subject
from benchmarks.peers._process import THREADS, RivalFailedError, RivalProcess, rival_process
from benchmarks.peers._table import Row, as_line, write
from benchmarks.peers._venvs import venv_python
from pspns.data.load import load
from pspns.data.split import Pairs, Split
from pspns.errors import PspnsError, unknown_name
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.rng import host_stream
from pspns.run import build_world, make_split
from pspns.settings import Settings
from pspns.shapes import World
from pspns.starts.spectral import SpectralStart

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Effort:
    """How much is run."""

    epochs: int = 20
    steps: int = 10
    draws: int = 1_000_000
    pairs: tuple[int, int] = (3, 9)  # at least, at most …
    seconds: float = 30  # … and none begun after so many


QUICK = Effort(epochs=2, steps=2, draws=100_000, pairs=(1, 1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition(": ")[2])
    parser.add_argument("--data", type=Path, help="a folder of train, valid and test files; else a generated world")
    parser.add_argument("--only", help="rivals, separated by commas")
    parser.add_argument("--subjects", help=f"of {', '.join(SUBJECTS)}, separated by commas")
    parser.add_argument("--quick", action="store_true", help="two epochs, two steps, one pair of turns: does it run?")
    parser.add_argument("--out", type=Path, help="folder for peers.md and peers.json; unset and quick: not written")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    effort = QUICK if options.quick else Effort()
    try:
        contests = chosen(CONTESTS, options.only, options.subjects)
        split, world = open_data(options.data)
    except PspnsError as error:
        parser.error(str(error))
    given = export(split, world, effort)
    described = (
        f"{options.data.name if options.data else 'generated'} ({split.n_users:,} users, {split.n_items:,} items, "
        f"{len(split.train):,} train pairs)"
    )
    print(described, flush=True)

    subjects: dict[str, Subject] = {}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        folder = Path(name)
        given.write(folder / "given.npz")
        for contest in contests:
            if contest.subject not in subjects:
                subject = subjects[contest.subject] = SUBJECTS[contest.subject](split, world, given)
                subject.turn()  # warm
                print(f"\n{subject.unit.title}: {subject.unit.what}", flush=True)
            subject = subjects[contest.subject]
            rows.append(compete(contest, subject, folder, effort))
            print(as_line(rows[-1], subject.unit), flush=True)
    machine = {
        "data": described,
        **({"effort": "quick: a check that it runs, not figures to quote"} if options.quick else {}),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": THREADS,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }
    if options.out or not options.quick:
        write(options.out or RESULTS, machine, {name: subject.unit for name, subject in subjects.items()}, rows)


def chosen(contests: Sequence[Contest], rivals: str | None, subjects: str | None) -> list[Contest]:
    """Those asked for; unset means all."""
    kept_rivals = _names("rival", rivals, {contest.rival.name for contest in contests})
    kept_subjects = _names("subject", subjects, {contest.subject for contest in contests})
    return [one for one in contests if one.rival.name in kept_rivals and one.subject in kept_subjects]


def _names(what: str, text: str | None, known: set[str]) -> set[str]:
    asked = known if text is None else set(text.split(","))
    for name in sorted(asked - known):
        raise unknown_name(what, name, known)
    return asked


def open_data(folder: Path | None) -> tuple[Split, World]:
    """The folder's split or a generated one, less held-out pairs of users and items unknown to train.

    Libraries treat those differently, and this is not about them.
    """
    settings = Settings()
    split = make_split(load(folder), settings, STRICT) if folder else movielens_sized()[0]
    split = dataclasses.replace(split, valid=_known(split, split.valid), test=_known(split, split.test))
    return split, build_world(split, settings, STRICT, MemoryBudget(torch.device("cpu")))


def _known(split: Split, part: Pairs) -> Pairs:
    inside = (part.users < split.n_users) & (part.items < split.n_items)
    return Pairs(part.users[inside], part.items[inside])


def export(split: Split, world: World, effort: Effort) -> Given:
    """What rivals are given; the vectors are the singular ones of train."""
    rng = host_stream(0, "peers")
    users, items = SpectralStart().embeddings(world, SIZE, rng)
    train, valid, test = (np.stack([part.users, part.items], axis=1) for part in (split.train, split.valid, split.test))
    draw_for = rng.choice(split.train.users, effort.draws)
    return Given(split.n_users, split.n_items, train, valid, test, users, items, draw_for, effort.epochs, effort.steps)


def compete(contest: Contest, ours: Subject, folder: Path, effort: Effort) -> Row:
    """Turn about, then the check; a rival that fails leaves its reason."""
    row = Row(contest.subject, contest.called, contest.note)
    try:
        python = venv_python(contest.rival.name, contest.rival.requirements)
        with rival_process(python, contest.rival.script, contest.task, folder / "given.npz", folder) as rival:
            if contest.subject != "mf":  # a whole training of some seconds needs no warm-up
                rival.turn()
            ours_seconds, rival_seconds = take_turns(ours.turn, rival, effort)
            answer = ours.compare(rival.answer())
    except RivalFailedError as error:
        return dataclasses.replace(row, failed=str(error))
    return dataclasses.replace(
        row, answer=answer, ours_seconds=ours_seconds, rival_seconds=rival_seconds, versions=rival.versions
    )


def take_turns(ours: Callable[[], float], rival: RivalProcess, effort: Effort) -> tuple[list[float], list[float]]:
    """Ours, rival, ours, rival …, so that a noisy machine disturbs both alike."""
    began = time.monotonic()
    at_least, at_most = effort.pairs
    seconds: tuple[list[float], list[float]] = ([], [])
    while len(seconds[0]) < at_least or (len(seconds[0]) < at_most and time.monotonic() - began < effort.seconds):
        seconds[0].append(ours())
        seconds[1].append(rival.turn())
    return seconds


if __name__ == "__main__":
    main()
