"""What a full SVD costs beside the randomized one of the same matrix, on the same machine, and whether it converges."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pspns.csr import degree_scales
from pspns.data.interactions import Floats
from pspns.evaluation.protocol import STRICT
from pspns.experiments import published
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Data, Job
from pspns.experiments.methods import PSP_NS
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.reproduction.construction_time import seconds_of
from pspns.experiments.telling import Telling
from pspns.experiments.verdicts import NOT_MEASURED, Outcome, Verdict, judge
from pspns.memory import MemoryBudget
from pspns.rng import host_stream
from pspns.run import choose_device, make_split
from pspns.spectral import Normalised, is_exact, randomized_svd

COSTLY = 10.0
"""Times the randomized one's seconds; the paper names no number."""
TABLES_HELD = 4
"""The matrix, both sides of vectors, and what LAPACK works in, each at most as large as the matrix."""


def record_name(data: str) -> str:
    """
    >>> record_name("ml-1m")
    'full-svd-ml-1m'
    """
    return f"full-svd-{data}"


def jobs(data: str) -> Iterator[Job]:
    if is_papers(data):
        yield Job(record_name(data), data, partial(measure, record_name(data), data), alone=True)


def is_papers(data: str) -> bool:
    """On data of anybody's a full SVD may take hours, for a claim of the paper's."""
    return known_data(data).printed_as in published.tables()["overall"].data


def measure(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """Seconds of both in float32, and how far the leading singular values are apart."""
    settings = Cell(data, "lightgcn", PSP_NS).settings(terms, data)
    device = choose_device(settings.run.device)
    split = make_split(interactions, settings, STRICT)
    shape, rank = (split.n_users, split.n_items), min(settings.positives.rank, split.n_users, split.n_items)
    MemoryBudget(device).check(TABLES_HELD * 4 * shape[0] * shape[1], f"a full SVD of {shape[0]:,} × {shape[1]:,}")
    matrix = split.train.matrix(*shape)
    operator = Normalised.of(matrix, device)
    quick = seconds_of(lambda: randomized_svd(operator, rank, host_stream(settings.run.data_seed, "svd")), device)
    ours = randomized_svd(operator, rank, host_stream(settings.run.data_seed, "svd"))[1].cpu().double().numpy()
    user_scale, item_scale = degree_scales(matrix)
    dense = torch.from_numpy((user_scale[:, None] * matrix.toarray() * item_scale).astype(np.float32)).to(device)
    telling.say(f"{data}: a full SVD of {shape[0]:,} × {shape[1]:,}; one long step, which nothing can interrupt")
    began = time.perf_counter()
    values = full_singular_values(dense)
    seconds = time.perf_counter() - began
    telling.say(f"{data}: {seconds:.1f} s, randomized {quick['median']:.2f} s")
    return {
        **describe_job(name, split, settings, device),
        "rank": rank,
        "exact_svd": is_exact(shape),
        "seconds": {"randomized": quick, "full": seconds},
        "converges": values is not None,
        "furthest_apart": None if values is None else float(np.abs(ours / values[:rank] - 1).max()),
    }


def full_singular_values(dense: Tensor) -> Floats | None:
    """All of them, with the vectors that belong to them computed, too; None if that does not converge."""
    try:
        values = torch.linalg.svd(dense, full_matrices=False)[1]
    except RuntimeError as error:
        if "converge" not in str(error):  # in torch's words "failed to converge because …"
            raise
        return None
    found: Floats = values.cpu().double().numpy()
    return found


def full_svd_is_costly(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """In seconds, and in whether it comes to an end. Both protocols decompose the same matrix."""
    on = [data for data in data_names if is_papers(data)]
    if not on:
        return Verdict(NOT_MEASURED, "measured on the paper's data sets alone, as it may take hours on others")
    outcomes = []
    for data in on:
        record, title = records.find(record_name(data)), known_data(data).title
        if record is None or record["exact_svd"]:
            why_not = "the smaller side has up to 1,000 rows, where ours is exact" if record else ""
            outcomes.append(Outcome(title, None, why_not=why_not))
            continue
        full, quick = record["seconds"]["full"], record["seconds"]["randomized"]["median"]
        figures = (
            f"{full:.3g} s, {quick:.2g} s randomized at rank {record['rank']}: {full / quick:.0f} times as long, on "
            f"{record['machine']['device']}"
        )
        outcomes.append(Outcome(f"{title}, cost", full >= COSTLY * quick, figures, records=(record_name(data),)))
        ends = "does not converge"
        if record["converges"]:
            apart = 100 * record["furthest_apart"]
            ends = f"converges, leading singular values at most {apart:.1g} % from the randomized ones"
        what = f"{title}, hardly converges"
        outcomes.append(Outcome(what, not record["converges"], ends, records=(record_name(data),)))
    return judge(outcomes, of="figures")
