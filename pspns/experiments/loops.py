"""Loops of cells: which may share one, and how one is trained so that it can be stopped and go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pspns.errors import PspnsError, SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Data
from pspns.experiments.same_settings import meant
from pspns.experiments.telling import Telling
from pspns.memory import MemoryBudget
from pspns.resume import has_checkpoint
from pspns.run import Run, build_world, choose_device, make_split, run_together
from pspns.settings import Settings
from pspns.training.checkpoint import Checkpoints

MOST_REPLICAS = 12
"""In one loop: more fill the device and gain nothing."""
TRYING = "trying-"
"""Before the name of a loop of trials, which have the name of no record: what they kept must outlast that of the cell
they are trials of."""


class BegunOtherwiseError(SettingsError):
    """A training cannot go on from what was kept of it."""


def loops(cells: Iterable[Cell], terms: Terms) -> list[list[Cell]]:
    """Cells that may share a loop, side by side, as many as the device is worth; in the order given where it may be."""
    found: list[list[Cell]] = []
    with_room: dict[str, list[tuple[list[Cell], int]]] = {}
    for cell in cells:
        settings = cell.settings(terms, cell.data)
        n_replicas = len(settings.run.seeds)
        company = with_room.setdefault(_shared(settings), [])
        # One that is to be alone finds no room with others, and leaves none.
        place = next(
            (number for number, (_, room) in enumerate(company) if n_replicas <= room and not cell.alone), None
        )
        if place is None:
            found.append([cell])
            company.append((found[-1], 0 if cell.alone else MOST_REPLICAS - n_replicas))
        else:
            loop, room = company[place]
            loop.append(cell)
            company[place] = (loop, room - n_replicas)
    return found


@contextmanager
def trained(
    cells: Sequence[Cell], data: Data, terms: Terms, telling: Telling, *, judge_test: bool = True
) -> Iterator[list[Run]]:
    """The runs of one loop. Write their records inside the block: whatever happens, there is either a checkpoint or
    the records, and the same call goes on from there."""
    members = [cell.settings(terms, cell.data) for cell in cells]
    if cells[0].alone:
        _build_once(data, members[0])
    with telling.place(f"{'' if judge_test else TRYING}{_loop_name(cells, members)}") as place:
        resume = place is not None and has_checkpoint(place)
        try:
            runs = run_together(
                data,
                members,
                judge_test=judge_test,
                checkpoints=place,
                resume=resume,
                watch=telling.watch,
                say=telling.say,
            )
        except SettingsError as error:
            if not resume:
                raise
            # What was begun had settings that train, so it is about something else: other data, another version.
            raise BegunOtherwiseError(f"{error}; here that is: remove {place}") from error
        yield runs


def forget_what_was_finished(unfinished: Path, done: Collection[str]) -> None:
    """Remove what a training kept whose cells were trained in other company meanwhile."""
    places: list[Path] = []
    with suppress(FileNotFoundError):  # the last of several processes has just removed it, or it never was
        places = list(unfinished.iterdir())
    for place in places:
        if place.name.rpartition(".")[0] in done:
            checkpoints = Checkpoints(place, {})
            with suppress(PspnsError), checkpoints.lock():  # unless another process is at it
                checkpoints.remove()
    with suppress(OSError):  # there are others in it
        unfinished.rmdir()


def _build_once(data: Data, settings: Settings) -> None:
    """What builds pairs is compiled the first time: seconds that are not the method's own."""
    protocol = find_protocol(settings.run.protocol)
    memory = MemoryBudget(choose_device(settings.run.device))
    build_world(make_split(data, settings, protocol), settings, protocol, memory)


def _loop_name(cells: Sequence[Cell], members: Sequence[Settings]) -> str:
    """After its first cell; who else is in it, and with which settings, tells the end of it."""
    content = json.dumps([[cell.name for cell in cells], [meant(settings.as_dict()) for settings in members]])
    return f"{cells[0].name}.{hashlib.sha256(content.encode()).hexdigest()[:8]}"


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
