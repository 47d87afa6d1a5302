"""An experiment: what must be run for it, and what it shows of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Records
from pspns.experiments.sections import Section
from pspns.experiments.telling import Telling

Data = Interactions | GivenSplit


@dataclass(frozen=True)
class Job:
    """A measurement that is no training of a cell; its result becomes the record of that name."""

    name: str
    data: str
    measure: Callable[[Data, Terms, Telling], dict[str, Any]]
    """Where it keeps what is not finished is its own folder, which goes once the record is written."""
    alone: bool = False
    """Measures seconds, and so is taken only while no other process that shares the work is at anything."""


@dataclass(frozen=True)
class Experiment:
    title: str
    shows: str
    """In a sentence, for the list of experiments."""
    section: Callable[[Records, Sequence[str]], Section]
    """Of these data sets; what has no record yet is named in `missing`."""
    cells: Callable[[str], Iterable[Cell]] = lambda data: ()
    """What must be trained for one data set."""
    tuned: Callable[[str], Iterable[Cell]] = lambda data: ()
    """What is also trained with settings that trials choose: see `pspns.experiments.trials`."""
    jobs: Callable[[str], Iterable[Job]] = lambda data: ()
    data: tuple[str, ...] = ("ml-1m", "epinions")
    """What it is run on unless said."""
