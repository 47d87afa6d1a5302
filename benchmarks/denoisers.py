"""What a training step costs with each denoiser at its defaults, beside plain training.

    python -m benchmarks.denoisers --data ml-1m.npz --device cuda --replicas 1 3 --out benchmarks/results

First, denoisers that are told to change nothing are compared with plain training, which they must equal to the bit.
Then all train in turns, several rounds, and the median of each is set against that of plain training with its loss.
What a denoiser does at an epoch's end (BOD) or before training (DeCA(p)) is not in it.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

from benchmarks._report import Report
from benchmarks._steps import parse_options, seconds_a_step, train, world_of, world_words
from pspns.components import find_part, part_names
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import World

# Settings with which they leave plain training as it is.
WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "t-ce": {"drop_rate": 0.0},
    "r-ce": {"beta": 0.0},
    "dcf": {"drop_rate": 0.0, "relabel_share": 0.0},
    "pld": {"pool": 1, "users": "interaction"},
}


def main() -> None:
    options = parse_options("python -m benchmarks.denoisers", __doc__.partition("\n")[0])
    world = world_of(options)
    for model in options.models:
        _check(world, model)
    report = Report(
        f"A step with each denoiser, {world.device.type}",
        f"{world_words(options, world)}, in turns. {', '.join(WITHOUT_EFFECT)} equalled plain training to the bit when "
        "told to change nothing.",
        ("model", "replicas", "denoiser", "loss", "ms a step", "beside plain training"),
    )
    for model in options.models:
        for n_replicas in options.replicas:
            times = _time_all(world, model, n_replicas, options.steps, options.rounds)
            for (name, loss), seconds in times.items():
                ratio = f"{seconds / times['none', loss]:.2f}"
                report.add(model, n_replicas, name, loss, f"{1000 * seconds:.3f}", ratio)
    report.write(options.out, f"denoisers-{world.device.type}")


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
            # Of one that trains twice, the second time is what the clock shows in the end.
            chosen = {"negatives": UniformNegatives(), "denoiser": parts[name](), "loss": loss}
            found.append(seconds_a_step(world, model, n_replicas, n_steps, **chosen))
    return {kind: statistics.median(found) for kind, found in seconds.items()}


if __name__ == "__main__":
    main()
