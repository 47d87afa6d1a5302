"""How long PSP's pairs take to build, stage by stage, beside the seconds that the paper prints."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from pspns.data.split import Pairs
from pspns.evaluation.protocol import STRICT
from pspns.experiments import published
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Data, Experiment, Job
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.sections import Number, Section, Table, TableCell
from pspns.experiments.telling import Telling
from pspns.global_svd import GlobalSvd
from pspns.memory import MemoryBudget
from pspns.positives.psp import PspPositives
from pspns.run import choose_device, make_split
from pspns.shapes import Ground, PositivePairs
from pspns.spectral import is_exact

REPETITIONS = 3
STAGES = {
    "svd": "normalise, SVD",
    "proposals": "top K of each user",
    "merge": "merge, copies",
    "weights": "user weights",
}
WHOLE = "all"
IN_PROPORTION = 2.0
"""Costs of a unit that are no further apart than by this factor count as the same."""


@dataclass(frozen=True, kw_only=True)
class _FromProposals(PspPositives):
    """PSP's last stage alone: the proposals were made before."""

    proposals: Pairs

    def propose(self, ground: Ground) -> Pairs:
        return self.proposals


def measure(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """Seconds of each stage and of all in one go."""
    settings = Cell(data, "lightgcn", "psp-ns").settings(terms, data)
    device = choose_device(settings.run.device)
    split = make_split(interactions, settings, STRICT)
    ground = Ground(split.n_users, split.n_items, split.train, settings.run.data_seed, MemoryBudget(device))
    builder = settings.positives
    proposals = builder.propose(ground)  # leaves the SVD in `ground`, from which the stages start
    merging = _FromProposals(**vars(builder), proposals=proposals)
    pairs = merging.build(ground)
    n_pairs = np.bincount(pairs.users, minlength=ground.n_users)

    def whole() -> PositivePairs:
        built: PositivePairs = builder.build(replace(ground, svd=GlobalSvd()))
        settings.weighting.weights(np.bincount(built.users, minlength=ground.n_users))
        return built

    stages: dict[str, Callable[[], Any]] = {
        "svd": lambda: GlobalSvd().factors(ground, builder.rank, exact=builder.exact),
        "proposals": lambda: builder.propose(ground),
        "merge": lambda: merging.build(ground),
        "weights": lambda: settings.weighting.weights(n_pairs),
        WHOLE: whole,
    }
    seconds = {stage: seconds_of(do, device) for stage, do in stages.items()}
    telling.say(f"pairs built in {seconds[WHOLE]['median']:.3f} s on {device}")
    return {
        **describe_job(name, split, settings, device),
        "pairs": len(pairs),
        "visits_an_epoch": pairs.n_visits,
        "exact_svd": is_exact((ground.n_users, ground.n_items), exact=builder.exact),
        "seconds": seconds,
    }


def seconds_of(do: Callable[[], Any], device: torch.device) -> dict[str, Any]:
    """Every time and their median; a first one, which may compile, is not counted."""
    taken = []
    for _ in range(1 + REPETITIONS):
        _wait_for(device)
        began = time.perf_counter()
        do()
        _wait_for(device)
        taken.append(time.perf_counter() - began)
    return {"median": statistics.median(taken[1:]), "each": taken[1:]}


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def jobs(data: str) -> Iterable[Job]:
    name = f"construction-time-{data}"
    yield Job(name, data, partial(measure, name, data), alone=True)


@dataclass(frozen=True)
class _Cost:
    """Seconds, and what they should be proportional to."""

    title: str
    users: int
    items: int
    seconds: float

    @property
    def bound(self) -> float:
        """users × items × ln(items), by which the paper bounds the cost."""
        return self.users * self.items * math.log(self.items)

    @property
    def nanoseconds(self) -> float:
        """For each unit of the bound."""
        return 1e9 * self.seconds / self.bound


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    found = {data: record for data in data_names if (record := asked.find(f"construction-time-{data}"))}
    ours = {
        data: _Cost(known_data(data).title, record["data"]["users"], record["data"]["items"], _median(record, WHOLE))
        for data, record in found.items()
    }
    devices = sorted({record["machine"]["device"] for record in found.values()})
    words = [
        "The paper prints the seconds in which PSP-NS's pairs are constructed, but neither its machine nor the rank it "
        "used. Ours are at the default rank"
        + (f", on {' and '.join(devices)}" if devices else "")
        + f": medians of {REPETITIONS} after a first one that is not counted. Only train is read."
    ]
    return Section(
        name="construction-time",
        title="Construction time",
        words=(*words, *_faster_words(ours), *_growth_words(list(ours.values()))),
        tables=(_stages_table(asked, data_names), _growth_table(asked, data_names, ours)),
        missing=tuple(asked.missing),
    )


def _median(record: Record, stage: str) -> float:
    return float(record["seconds"][stage]["median"])


def _printed(data: str) -> _Cost | None:
    """The paper's seconds, and its own counts of users and items."""
    of_paper = published.data_sets().get(known_data(data).printed_as)
    if of_paper is None:
        return None
    return _Cost(of_paper.paper, of_paper.users, of_paper.items, of_paper.construction_seconds)


def _caption(data: str) -> str:
    known = known_data(data)
    return f"{known.title}{f' ({known.note})' if known.note else ''}"


def _stages_table(records: Records, data_names: Sequence[str]) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for data in data_names:
        name, printed = f"construction-time-{data}", _printed(data)
        record = records.find(name)
        cells: list[TableCell] = [Number(printed.seconds) if printed else None]
        for stage in (WHOLE, *STAGES):
            cells.append(Number(_median(record, stage), digits=4, record=name) if record else None)
        cells.append(Number(record["pairs"], digits=0, record=name) if record else None)
        rows.append(((_caption(data),), tuple(cells)))
    return Table(
        name="construction-time",
        caption="Seconds to construct the pairs",
        heads=("data",),
        columns=("paper, s", "ours, s", *(f"{words}, s" for words in STAGES.values()), "pairs"),
        rows=tuple(rows),
        note="Stages are timed by themselves, so that they need not add up to the whole.",
    )


def _growth_table(records: Records, data_names: Sequence[str], ours: dict[str, _Cost]) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for data in data_names:
        cost, printed, name = ours.get(data), _printed(data), f"construction-time-{data}"
        rows.append(((_caption(data),), (
            Number(cost.users, digits=0, record=name) if cost else None,
            Number(cost.items, digits=0, record=name) if cost else None,
            Number(cost.bound / 1e9, record=name) if cost else None,
            Number(cost.nanoseconds, digits=3, record=name) if cost else None,
            Number(printed.bound / 1e9) if printed else None,
            Number(printed.nanoseconds, digits=3) if printed else None,
        )))  # fmt: skip
    return Table(
        name="construction-growth",
        caption="Seconds beside users × items × ln(items)",
        heads=("data",),
        columns=(
            "users", "items", "users × items × ln(items), 10⁹", "ours, ns for each", "paper's sizes, 10⁹",
            "paper, ns for each",
        ),
        rows=tuple(rows),
        note="If the time grew as the bound does, a column of nanoseconds would show one number.",
    )  # fmt: skip


def _faster_words(ours: dict[str, _Cost]) -> tuple[str, ...]:
    times = {data: printed.seconds / cost.seconds for data, cost in ours.items() if (printed := _printed(data))}
    if not times:
        return ()
    told = ", ".join(f"{factor:,.3g} on {known_data(data).title}" for data, factor in times.items())
    return (
        f"Times faster than printed: {told}. Machines and ranks differ, and data where the table says so: this is no "
        "comparison of code.",
    )


def _growth_words(ours: Sequence[_Cost]) -> tuple[str, ...]:
    """Do the seconds grow as users × items × log(items)?"""
    if len(ours) < 2:
        return ()
    printed = [
        _Cost(one.paper, one.users, one.items, one.construction_seconds) for one in published.data_sets().values()
    ]
    words = "The paper puts the cost at O(users × items × log items): an upper bound, not yet a rule for the seconds."
    for whose, costs in (("Our", ours), ("The paper's own", printed)):
        low, high = (chosen(costs, key=lambda one: one.nanoseconds) for chosen in (min, max))
        factor = high.nanoseconds / low.nanoseconds
        words += (
            f" {whose} seconds {'grow about so' if factor <= IN_PROPORTION else 'do not grow so'}: for each unit "
            f"{high.title} takes {factor:.1f} times as long as {low.title}."
        )
    return (words,)


EXPERIMENT = Experiment(
    title="Construction time",
    shows="Seconds to construct PSP-NS's pairs, stage by stage, beside the paper's",
    section=section,
    jobs=jobs,
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
