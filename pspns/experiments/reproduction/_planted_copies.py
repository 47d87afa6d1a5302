"""How many of PSP's pairs are true where the truth is planted, by the number of copies that agreed pairs come in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pspns.components import find_part
from pspns.data.planted import PlantedWorld
from pspns.evaluation.protocol import STRICT
from pspns.experiments import published
from pspns.experiments._members import changed, make_settings, recipe
from pspns.experiments.cells import Terms
from pspns.experiments.experiment import Data, Job
from pspns.experiments.planted_truth import WORLDS, pairs_of, quality
from pspns.experiments.records import Record
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.telling import Telling
from pspns.run import choose_device, make_split

NAME = "planted-copies"


def jobs(data: str) -> Iterator[Job]:
    """Made for the first data set that is asked for, and found by the others."""
    yield Job(NAME, data, partial(measure, NAME))


def measure(name: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """World → copies → accuracy and coverage, and those of observed pairs; `interactions` are of another data set, and
    not looked at."""
    device = choose_device(terms.device)
    worlds = {}
    for world in WORLDS:
        truth: PlantedWorld = find_part("datasets", world)().plant()
        found = {}
        for copies in (None, *map(int, published.grids()["copies"])):
            positives = {"name": "observed"} if copies is None else {"name": "psp", "copies": copies}
            chosen = {"data": {"source": world}, "positives": positives, "run": {"device": device.type}}
            settings = make_settings(changed(recipe("plain"), chosen))
            split = make_split(truth.interactions, settings, STRICT)
            accuracy, coverage = quality(truth, split, pairs_of(split, settings))
            found["observed" if copies is None else str(copies)] = {"accuracy": accuracy, "coverage": coverage}
        telling.say(f"{world}: " + ", ".join(f"{key} {100 * one['accuracy']:.1f} %" for key, one in found.items()))
        worlds[world] = found
    return {**describe_job(name, split, settings, device), "worlds": worlds}
