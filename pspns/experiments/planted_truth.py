"""Accuracy and coverage of positives where the truth is planted: what PSP builds, and what denoisers weigh.

    python -m pspns.experiments.planted_truth --device cuda --out planted-truth.json

Of each of the three worlds, a fifth of whose pairs are false: the builders' pairs as they are, and observed pairs with
the weights that each denoiser gave them between the last two evaluations. Nothing of the truth is seen in training.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pspns.cli.output_file import check_place
from pspns.components import find_part, part_names
from pspns.data.planted import PlantedWorld
from pspns.data.split import Split
from pspns.errors import PspnsError, unknown_name
from pspns.evaluation.protocol import find_protocol
from pspns.experiments._members import changed, make_settings, recipe
from pspns.experiments.denoisers import with_its_loss
from pspns.json_files import write_json
from pspns.memory import MemoryBudget
from pspns.positives_quality import exact_quality
from pspns.record import describe_machine, describe_versions
from pspns.run import build_world, choose_device, make_split, run
from pspns.settings import Settings
from pspns.shapes import PositivePairs

WORLDS = tuple(name for name in part_names("datasets") if name.startswith("planted-"))
BUILDERS = ("observed", "psp", "merged", "agreement", "global")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m pspns.experiments.planted_truth", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--worlds", default=",".join(WORLDS), help="comma between them")
    parser.add_argument("--models", default="mf,lightgcn", help="comma between them")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--max-steps", type=int, default=20_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="where the record goes")
    parser.add_argument("--overwrite", action="store_true", help="replace the file in --out if there is one")
    options = parser.parse_args()
    try:
        _measure(options)
    except PspnsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _measure(options: argparse.Namespace) -> None:
    check_place(options.out, overwrite=options.overwrite)
    for kind in options.worlds.split(","):
        if kind not in WORLDS:
            raise unknown_name("world", kind, WORLDS)
    training = {"max_steps": options.max_steps}
    seeds = tuple(range(options.seeds))
    record: dict[str, Any] = {"experiment": "planted-truth", "seeds": list(seeds), **training, "worlds": {}}
    for kind in options.worlds.split(","):
        truth: PlantedWorld = find_part("datasets", kind)().plant()
        built = {name: _figures(found) for name, *found in builders(truth, choose_device(options.device).type)}
        denoised = {}
        for model in options.models.split(","):
            chosen = {
                "model": {"name": model},
                "training": training,
                "run": {"seeds": seeds, "device": options.device, "baselines": False},
            }
            denoised[model] = dict(denoisers(truth, chosen))
        record["worlds"][kind] = {"builders": built, "denoisers": denoised}
    device = choose_device(options.device)
    write_json(options.out, {**record, "versions": describe_versions(), "machine": describe_machine(device)})


def builders(truth: PlantedWorld, device: str) -> Iterator[tuple[str, float, float]]:
    """Name, accuracy and coverage of what each builder makes of train."""
    for name in BUILDERS:
        settings = make_settings(changed(recipe("plain"), {"positives": {"name": name}, "run": {"device": device}}))
        split = make_split(truth.interactions, settings, find_protocol("strict"))
        yield name, *quality(truth, split, pairs_of(split, settings))


def denoisers(truth: PlantedWorld, chosen: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and figures of each denoiser's weights, one for each seed."""
    for name, denoiser in with_its_loss().items():
        settings = make_settings(changed(recipe("plain"), denoiser, chosen))
        done = run(truth.interactions, settings)
        pairs = pairs_of(done.split, settings)
        weights = done.model.fitted.pair_weights or [np.ones(len(pairs)) for _ in settings.run.seeds]
        found = [quality(truth, done.split, pairs, own) for own in weights]
        print(f"{name}: accuracy, coverage {found}", flush=True)
        yield (
            name,
            {
                **_figures(list(zip(*found, strict=True))),
                "test_recall@20": [ranked.overall["recall@20"] for ranked in done.model.test],
                "steps": done.model.fitted.steps,
                "best_step": done.model.fitted.best_steps,
            },
        )


def pairs_of(split: Split, settings: Settings) -> PositivePairs:
    memory = MemoryBudget(choose_device(settings.run.device))
    return build_world(split, settings, find_protocol("strict"), memory).pairs


def quality(truth: PlantedWorld, split: Split, pairs: PositivePairs, weights: Any = None) -> tuple[float, float]:
    """Accuracy and coverage."""
    found = exact_quality(pairs, split.user_ids, split.item_ids, truth, weights)
    assert found.accuracy is not None
    return found.accuracy, found.coverage


def _figures(found: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("accuracy", "coverage"), found, strict=True))


if __name__ == "__main__":
    main()
