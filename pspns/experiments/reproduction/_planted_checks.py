"""Claims of which pairs are true: checked where the truth is planted, and with false pairs put into train."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from pspns.experiments._cells import MODELS as MODEL_WORDS
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.records import Record, Records, is_cut_short, p_value_of_seeds
from pspns.experiments.reproduction._beside import from_to
from pspns.experiments.reproduction._comparisons import UNTESTED, of_paper, told_from_luck
from pspns.experiments.reproduction._denoised_worlds import DENOISERS, MODELS, of_each_denoiser, record_name
from pspns.experiments.reproduction._planted_copies import NAME as COPIES
from pspns.experiments.reproduction._theory_section import PLANTED
from pspns.experiments.verdicts import CUT_SHORT, NOT_MEASURED, Outcome, Verdict, judge

NOISE = 0.2
"""False pairs that are added to train, as a share of it."""
PLAIN = "uniform"
OF_STRICT = Verdict(NOT_MEASURED, "the truth of pairs is measured as `strict` builds them")


def noisy_cells(data: str) -> Iterator[Cell]:
    """Plain training with and without false pairs, on the data sets that the paper has both models on."""
    for name in of_paper([data], "mf"):
        for model in MODELS:
            yield from _pair(name, model, "strict")


def false_pairs_harm(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Plain training with false pairs added to train, beside plain training without. Both know the same test."""
    outcomes: list[Outcome] = []
    p_values: dict[int, float] = {}
    for data in of_paper(data_names, "mf"):
        for model in MODELS:
            what = f"{known_data(data).title}, {MODEL_WORDS[model]}, Recall@20"
            noisy, clean = (records.see(cell) for cell in _pair(data, model, protocol))
            if noisy is None or clean is None or is_cut_short(noisy, clean):
                outcomes.append(Outcome(what, None, why_not=CUT_SHORT if noisy and clean else ""))
                continue
            low, high = (100 * seen.mean("recall@20") for seen in (noisy, clean))
            figures = f"{low:.2f} with {100 * NOISE:.0f} % of false pairs added, {high:.2f} without"
            if (p := p_value_of_seeds(noisy, clean, "recall@20")) is not None:
                p_values[len(outcomes)] = p
            outcomes.append(Outcome(what, low < high, figures, UNTESTED, records=(noisy.name, clean.name)))
    return judge(told_from_luck(outcomes, p_values), of="pairs of trainings")


def denoisers_err(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """What a denoiser keeps is no truer than what was there, and covers less."""
    outcomes = []
    for what, method, name, record in of_each_denoiser(records, record_name):
        if record is None:
            outcomes.append(Outcome(what, None))
            continue
        before = record["observed"]
        accuracy, coverage = (statistics.mean(record["denoisers"][method][key]) for key in ("accuracy", "coverage"))
        figures = (
            f"{100 * accuracy:.2f} % of what it keeps is true, {100 * before['accuracy']:.2f} % of what was "
            f"there; of the truth {100 * coverage:.2f} % is left of {100 * before['coverage']:.2f} %; best "
            f"after {from_to(record['denoisers'][method]['best_step'])} steps"
        )
        holds = accuracy <= before["accuracy"] and coverage < before["coverage"]
        outcomes.append(Outcome(what, holds, figures, records=(name,)))
    return judge(outcomes, of="denoisers on planted worlds")


def svd_suppresses_noise(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Observed pairs that the SVD proposes, too, are true more often: copies of these raise the share of true ones."""
    outcomes = [
        Outcome(
            world,
            builders["agreement"]["accuracy"] > builders["observed"]["accuracy"],
            f"{100 * builders['agreement']['accuracy']:.1f} % true with agreed pairs copied, "
            f"{100 * builders['observed']['accuracy']:.1f} % without",
            records=(PLANTED,),
        )
        for world, builders in _builders(records)
    ]
    return judge(outcomes, of="planted worlds")


def accuracy_and_coverage(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Of PSP's pairs as `strict` builds them: `published` drops some of the truest, those that are held out."""
    if protocol != "strict":
        return OF_STRICT
    record: Record | None = records.find(COPIES)
    outcomes = []
    for world, found in (record["worlds"] if record else {}).items():
        observed, *by_copies = found.items()
        for what in ("accuracy", "coverage"):
            # Copies change how often a pair comes, not which pairs there are.
            for copies, one in by_copies if what == "accuracy" else by_copies[:1]:
                at = f" at s = {copies}" if what == "accuracy" else ""
                figures = f"{100 * one[what]:.1f} % with PSP, {100 * observed[1][what]:.1f} % as observed"
                outcomes.append(
                    Outcome(f"{world}, {what}{at}", one[what] > observed[1][what], figures, records=(COPIES,))
                )
    return judge(outcomes, of="figures of planted worlds")


def truer_than_denoised(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """PSP's pairs at its defaults beside what denoisers leave of the observed ones."""
    if protocol != "strict":
        return OF_STRICT
    outcomes = []
    for world, builders in _builders(records):
        for model, method in itertools.product(MODELS, DENOISERS):
            record = records.find(record_name(world, model))
            for what in ("accuracy", "coverage"):
                title = f"{world}, {what}, {MODEL_WORDS[model]}, PSP against {method_words(method)}"
                if record is None:
                    outcomes.append(Outcome(title, None))
                    continue
                kept, ours = statistics.mean(record["denoisers"][method][what]), builders["psp"][what]
                names = (PLANTED, record_name(world, model))
                figures = f"{100 * ours:.1f} % against {100 * kept:.1f} %"
                outcomes.append(Outcome(title, ours > kept, figures, records=names))
    return judge(outcomes, of="figures of planted worlds")


def _pair(data: str, model: str, protocol: str) -> tuple[Cell, Cell]:
    """With false pairs, and without."""
    clean = Cell(data, model, PLAIN, protocol)
    return clean.but(changes=(("data.noise", NOISE),)), clean


def _builders(records: Records) -> Iterator[tuple[str, dict[str, Any]]]:
    """World, and accuracy and coverage of what each builder makes of it."""
    record: Record | None = records.find(PLANTED)
    for world, found in (record["worlds"] if record else {}).items():
        yield world, found["builders"]
