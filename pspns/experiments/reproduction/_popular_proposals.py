"""Are proposals less popular for the division by root degrees before the SVD? With it and without it, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pspns.data.split import Pairs
from pspns.evaluation.protocol import STRICT
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Data, Job
from pspns.experiments.methods import PSP_NS
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._comparisons import of_paper
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.telling import Telling
from pspns.experiments.verdicts import Outcome, Verdict, judge
from pspns.global_svd import Factors, GlobalSvd
from pspns.memory import MemoryBudget
from pspns.rng import host_stream
from pspns.run import choose_device, make_split
from pspns.shapes import Ground
from pspns.spectral import Normalised, randomized_svd

DIVIDED, AS_IT_IS = "divided by root degrees", "as it is"


class UndividedSvd(GlobalSvd):
    """Of the 0/1 matrix itself."""

    def factors(self, ground: Ground, rank: int, *, exact: bool = False) -> Factors:
        matrix = ground.train.matrix(ground.n_users, ground.n_items)
        operator = Normalised.of(matrix, ground.device, (np.ones(ground.n_users), np.ones(ground.n_items)))
        return randomized_svd(operator, rank, host_stream(ground.data_seed, "svd"))


def record_name(data: str) -> str:
    """
    >>> record_name("ml-1m")
    'popular-proposals-ml-1m'
    """
    return f"popular-proposals-{data}"


def jobs(data: str) -> Iterator[Job]:
    yield Job(record_name(data), data, partial(measure, record_name(data), data))


def measure(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """How popular the items are that PSP's builder proposes, at its defaults."""
    settings = Cell(data, "lightgcn", PSP_NS).settings(terms, data)
    device = choose_device(settings.run.device)
    split = make_split(interactions, settings, STRICT)
    ground = Ground(split.n_users, split.n_items, split.train, settings.run.data_seed, MemoryBudget(device))
    found = {}
    for matrix, svd in ((DIVIDED, GlobalSvd()), (AS_IT_IS, UndividedSvd())):
        found[matrix] = popularity(settings.positives.propose(replace(ground, svd=svd)), ground)
        telling.say(f"{data}, proposals of the matrix {matrix}: train pairs of their items {found[matrix]['mean']:.1f}")
    return {
        **describe_job(name, split, settings, device),
        "train_pairs_of_items": {"observed": popularity(split.train, ground), **found},
    }


def popularity(pairs: Pairs, ground: Ground) -> dict[str, Any]:
    """How many train pairs the items of these pairs have, on average, and which share of all items is among them."""
    degrees = np.bincount(ground.train.items, minlength=ground.n_items)
    return {
        "mean": float(degrees[pairs.items].mean()),
        "items_percent": 100 * len(np.unique(pairs.items)) / ground.n_items,
    }


def normalising_lessens_popularity_bias(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Proposed items are less popular, and more of all items are proposed to anybody. Both protocols propose alike."""
    outcomes = []
    for data in of_paper(data_names, "overall"):
        record, title = records.find(record_name(data)), known_data(data).title
        if record is None:
            outcomes.append(Outcome(title, None))
            continue
        divided, as_it_is = (record["train_pairs_of_items"][matrix] for matrix in (DIVIDED, AS_IT_IS))
        for key, what, is_less in (
            ("mean", "mean train pairs of the proposed items", True),
            ("items_percent", "% of all items proposed to anybody", False),
        ):
            one, other = divided[key], as_it_is[key]
            figures = f"{one:.1f} with the division, {other:.1f} without"
            holds = one < other if is_less else one > other
            outcomes.append(Outcome(f"{title}, {what}", holds, figures, records=(record_name(data),)))
    return judge(outcomes, of="figures")
