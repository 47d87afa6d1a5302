"""What a training step costs with each denoiser at its defaults, beside plain training.

    python -m benchmarks.denoisers --data ml-1m.npz --device cuda --replicas 1 3 --out benchmarks/results

First, denoisers that are told to change nothing are compared with plain training, which they must equal to the bit.
Then all train in turns, several rounds, and the median of each is set against that of plain training with its loss.
What a denoiser does at an epoch's end (BOD) or before training (DeCA(p)) is not in it.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

from benchmarks._report import Report
from benchmarks._steps import BATCH, SIZE, seconds_a_step, train
from benchmarks._world import movielens, read_data
from pspns.components import find_part, part_names
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.negatives.uniform import UniformNegatives
from pspns.run import build_world, choose_device, make_split
from pspns.settings import RunSettings, Settings
from pspns.shapes import World

# Settings with which they leave plain training as it is.
WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "t-ce": {"drop_rate": 0.0},
    "r-ce": {"beta": 0.0},
    "dcf": {"drop_rate": 0.0, "relabel_share": 0.0},
    "pld": {"pool": 1, "users": "interaction"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.denoisers", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", type=Path, help="a folder of data files, or an .npz of write_arrays; unset: as in `make bench`"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", nargs="+", default=["lightgcn", "mf"])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=200, help="timed in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    device = choose_device(options.device)
    settings = Settings(run=RunSettings(device=options.device))
    split = make_split(read_data(options.data), settings, STRICT) if options.data else movielens()[0]
    world = build_world(split, settings, STRICT, MemoryBudget(device))
    for model in options.models:
        _check(world, model)
    report = Report(
        f"A step with each denoiser, {device.type}",
        f"{options.data.stem if options.data else 'generated data'}: {world.n_users:,} users, {world.n_items:,} items, "
        f"{len(world.train):,} pairs; batch {BATCH:,}, size {SIZE}, float32; medians of {options.rounds} rounds of "
        f"{options.steps} steps, in turns. {', '.join(WITHOUT_EFFECT)} equalled plain training to the bit when told to "
        "change nothing.",
        ("model", "replicas", "denoiser", "loss", "ms a step", "beside plain training"),
    )
    for model in options.models:
        for n_replicas in options.replicas:
            times = _time_all(world, model, n_replicas, options.steps, options.rounds)
            for (name, loss), seconds in times.items():
                ratio = f"{seconds / times['none', loss]:.2f}"
                report.add(model, n_replicas, name, loss, f"{1000 * seconds:.3f}", ratio)
    report.write(options.out, f"denoisers-{device.type}")


def _check(world: World, model: str) -> None:
    def vectors(name: str, **settings: Any) -> list[torch.Tensor]:
        denoiser = find_part("denoisers", name)(**settings)
        fitted = train(world, model, 2, 5, lambda *_: None, negatives=UniformNegatives(), denoiser=denoiser)
        return list(fitted.scorer.tensors().values())

    plain = vectors("none")
    for name, settings in WITHOUT_EFFECT.items():
        if not all(map(torch.equal, plain, vectors(name, **settings))):
            raise AssertionError(f"{name} differs from plain training though it was to change nothing")


def _time_all(world: World, model: str, n_replicas: int, n_steps: int, rounds: int) -> dict[tuple[str, str], float]:
    """Denoiser and loss → median seconds of a step; plain training comes with either loss."""
    parts = {name: find_part("denoisers", name) for name in part_names("denoisers")}
    kinds = [("none", "bpr"), ("none", "bce")]
    kinds += [(name, getattr(part, "losses", ("bpr",))[0]) for name, part in parts.items() if name != "none"]
    seconds: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for (name, loss), found in seconds.items():
            denoiser = parts[name]()
            # Its teacher's steps would be timed instead; of the same cost but for looking up the teacher.
            if getattr(denoiser, "needs_teacher", False):
                continue
            chosen = {"negatives": UniformNegatives(), "denoiser": denoiser, "loss": loss}
            found.append(seconds_a_step(world, model, n_replicas, n_steps, **chosen))
    return {kind: statistics.median(found) for kind, found in seconds.items() if found}


if __name__ == "__main__":
    main()
