"""Claims of which pairs are true: checked where the truth is planted, and with false pairs put into train."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._comparisons import DATA
from pspns.experiments.reproduction._theory_section import PLANTED
from pspns.experiments.verdicts import Outcome, Verdict, judge
from pspns.json_files import read_json

DENOISERS = ("t-ce", "r-ce", "deca", "dcf", "pld")
"""Those of the paper."""
CELLS = "cells"


def beside_cells(records: Records, pattern: str) -> list[Record]:
    """Records of other programs: in the folder itself or, where that is called `cells`, in the one around it."""
    folders = [records.folder, *([records.folder.parent] if records.folder.name == CELLS else [])]
    return [read_json(path) for folder in folders for path in sorted(folder.glob(f"{pattern}.json"))]


def denoisers_err(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """What a denoiser keeps is no truer than what was there, and covers less."""
    outcomes = []
    for world, builders, denoised in _worlds(records):
        before = builders["observed"]
        for model, methods in denoised.items():
            for name in (name for name in DENOISERS if name in methods):
                accuracy, coverage = (statistics.mean(methods[name][key]) for key in ("accuracy", "coverage"))
                outcomes.append(
                    Outcome(
                        f"{world}, {model}, {method_words(name)}",
                        accuracy <= before["accuracy"] and coverage < before["coverage"],
                        f"{100 * accuracy:.2f} of what it keeps is true, {100 * before['accuracy']:.2f} of what was "
                        "there",
                    )
                )
    return judge(outcomes, of="denoisers on planted worlds")


def svd_suppresses_noise(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Observed pairs that the SVD proposes, too, are true more often: copies of these raise the share of true ones."""
    outcomes = [
        Outcome(
            world,
            builders["agreement"]["accuracy"] > builders["observed"]["accuracy"],
            f"{100 * builders['agreement']['accuracy']:.1f} true with agreed pairs copied, "
            f"{100 * builders['observed']['accuracy']:.1f} without",
        )
        for world, builders, _ in _worlds(records, every_model=False)
    ]
    return judge(outcomes, of="planted worlds")


def accuracy_and_coverage(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    outcomes = [
        Outcome(
            f"{world}, {what}",
            builders["psp"][what] > builders["observed"][what],
            f"{100 * builders['psp'][what]:.1f} with PSP, {100 * builders['observed'][what]:.1f} as observed",
        )
        for world, builders, _ in _worlds(records, every_model=False)
        for what in ("accuracy", "coverage")
    ]
    return judge(outcomes, of="figures of planted worlds")


def false_pairs_harm(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Plain training with false pairs added to train, beside plain training without, on equal terms."""
    outcomes = []
    for data in (name for name in data_names if name in DATA):
        for model in ("lightgcn", "mf"):
            clean = _member(records, f"denoisers-{model}-{data}*", "none")
            noisy = _member(records, f"noise-{model}-{data}*", "plain")
            if clean is None or noisy is None:
                outcomes.append(Outcome(f"{known_data(data).title}, {model}", None))
                continue
            low, high = (100 * _test(one, protocol)["recall@20"]["mean"] for one in (noisy, clean))
            share = 100 * noisy["settings"]["data"]["noise"]
            outcomes.append(
                Outcome(
                    f"{known_data(data).title}, {model}, Recall@20",
                    low < high,
                    f"{low:.2f} with {share:.0f} % of false pairs added, {high:.2f} without",
                )
            )
    return judge(outcomes, of="pairs of runs")


def _worlds(records: Records, *, every_model: bool = True) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """World, what builders make of it, and what denoisers do; without `every_model` each world once."""
    known, theory = set(), records.find(PLANTED)
    for record in [*beside_cells(records, "planted-truth*"), *([theory] if theory else [])]:
        for world, found in record["worlds"].items():
            if every_model or world not in known:
                yield world, found["builders"], found.get("denoisers", {})
            known.add(world)


def _member(records: Records, pattern: str, name: str) -> Record | None:
    for record in beside_cells(records, pattern):
        if name in record["members"]:
            found: Record = record["members"][name]
            return found
    return None


def _test(record: Record, protocol: str) -> dict[str, Any]:
    """Nothing is built, so `published` is mask `train`."""
    found: dict[str, Any] = record["test_other_masks"]["train"] if protocol == "published" else record["test"]
    return found
