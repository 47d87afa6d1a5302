"""Denoisers beside published figures: LightGCN on the noisy split of MovieLens-100K that DeCA's authors publish.

    python -m benchmarks.denoiser_anchors --data ml-100k-noisy --device cuda --out results

The folder holds train.rating.gz, valid.rating.gz and test.clean.gz: users, items, ratings. Train and validation have
every rating, the test only fives; 1,707 of its 3,594 pairs are in validation, too. Fixed epochs are held against the
logs of an audit of denoisers (bce, vectors of 32, normal start of deviation 0.1, Adam 0.001, no L2, 1,024 samples a
batch, which are 512 rows here). Where the audit chose an epoch, it is chosen here by the same loss on validation, and
where published code departs from its rule, the switch that does so is on.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._report import Report
from pspns.components import find_part
from pspns.data.split import Pairs, Split
from pspns.evaluation.protocol import STRICT
from pspns.evaluation.ranking import FullRanking
from pspns.evaluation.validation_loss import ValidationLoss
from pspns.memory import MemoryBudget
from pspns.models.lightgcn import LightGcn
from pspns.run import build_world, choose_device
from pspns.settings import Settings
from pspns.shapes import Scorer, Validate
from pspns.starts.normal import NormalStart
from pspns.training.settings import TrainingSettings
from pspns.training.stopping import Evaluation
from pspns.training.trainer import Member, Trainer

METRICS = "recall@20", "ndcg@20"
TRIMMED = 0.2

# What is looked for: epoch, or rule of choice → published recall and NDCG, each as (least, most) over seeds.
Range = tuple[float, float]
Published = dict[int | str, tuple[Range, Range]]


@dataclass(frozen=True)
class Anchor:
    name: str
    published: Published
    epochs: int
    denoiser: dict[str, Any] = field(default_factory=lambda: {"name": "none"})
    owned_too: bool = False
    batch_size: int = 512
    l2: float = 0.0
    look_every: int = 5  # epochs


def _both(recall: float, ndcg: float) -> tuple[Range, Range]:
    return (recall, recall), (ndcg, ndcg)


AS_CODED = {"relabel": "keep-label", "history": "slot", "mean": "since-reset", "window": 1, "ramp_steps": 30_000}
DECA: dict[str, Any] = {"blind": "first-step", "c1": 100.0, "c2": 100.0, "alpha": 0.0}

ANCHORS = [
    Anchor(
        "ERM",
        {
            10: ((0.100, 0.103), (0.064, 0.065)),
            40: ((0.115, 0.119), (0.077, 0.077)),
            100: ((0.125, 0.132), (0.086, 0.087)),
            "valid-loss": _both(0.1275, 0.0858),
            "revised-valid-loss": _both(0.1364, 0.0915),
        },
        epochs=300,
    ),
    Anchor(
        "T-CE, ε 0.2 in 30,000 steps",
        {
            40: ((0.113, 0.119), (0.075, 0.077)),
            100: ((0.124, 0.126), (0.083, 0.084)),
            200: ((0.134, 0.137), (0.089, 0.091)),
        },
        epochs=200,
        denoiser={"name": "t-ce", "drop_rate": 0.2, "ramp_steps": 30_000},
    ),
    Anchor(
        "R-CE, β 0.25",
        {40: ((0.117, 0.120), (0.075, 0.076)), 100: ((0.123, 0.127), (0.083, 0.084))},
        epochs=100,
        denoiser={"name": "r-ce", "beta": 0.25},
    ),
    Anchor(
        "DCF as coded",
        {"valid-loss": _both(0.1178, 0.0775)},
        epochs=300,
        denoiser={"name": "dcf", "bound_epochs": 300, **AS_CODED},
    ),
    Anchor(
        "DCF by its rule",
        {"valid-loss": _both(0.1178, 0.0775)},
        epochs=300,
        denoiser={"name": "dcf", "ramp_steps": 30_000},
    ),
    Anchor(
        "DeCA as coded",
        {"two rises of valid-loss": _both(0.0995, 0.0612)},
        epochs=300,
        denoiser={"name": "deca", **DECA},
        owned_too=True,
        batch_size=2048,
        l2=0.1,
        look_every=1,
    ),
    Anchor(
        "DeCA by its rule",
        {"two rises of valid-loss": _both(0.0995, 0.0612)},
        epochs=300,
        denoiser={"name": "deca", **DECA, "blind": "never"},
        batch_size=2048,
        l2=0.1,
        look_every=1,
    ),
    Anchor(
        "DeCA(p) as coded",
        {"two rises of valid-loss": _both(0.1231, 0.0806)},
        epochs=300,
        denoiser={
            "name": "deca-p", "same_start": True, "blind": "first-step", "c1": 1.0, "c2": 1.0, "alpha": 1.0,
        },
        owned_too=True,
        batch_size=2048,
        look_every=1,
    ),
    Anchor(
        "DeCA(p) by its rule",
        {"two rises of valid-loss": _both(0.1231, 0.0806)},
        epochs=300,
        denoiser={"name": "deca-p", "c1": 1.0, "c2": 1.0, "alpha": 1.0},
        batch_size=2048,
        look_every=1,
    ),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.denoiser_anchors", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of the three files")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3, help="how many, at least 2")
    parser.add_argument("--only", default="", help="names of anchors, a semicolon between them; unset: all")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds must be at least 2, to tell how far seeds differ, got {options.seeds}")
    report = Report(
        "Denoisers beside published figures: LightGCN, bce, MovieLens-100K with noise",
        "Published: least to most over the seeds of an audit, or its mean. Found: mean over seeds, train and "
        "validation masked. An epoch chosen here is chosen on validation, as the published one was.",
        ("method", "epoch", "metric", "published", "found", "deviation over seeds", "difference", "within"),
    )  # fmt: skip
    noisy = NoisyMovies(options.data, choose_device(options.device))
    for anchor in ANCHORS:
        if options.only and anchor.name not in options.only.split(";"):
            continue
        print(anchor.name, flush=True)
        curves = noisy.train(anchor, range(options.seeds))
        for wanted, published in anchor.published.items():
            chosen = [CHOICES[wanted](curve) if isinstance(wanted, str) else wanted for curve in curves]
            for metric, (least, most) in zip(METRICS, published, strict=True):
                found = [curve[epoch][metric] for epoch, curve in zip(chosen, curves, strict=True)]
                deviation, mean = float(np.std(found, ddof=1)), float(np.mean(found))
                # How far outside what was published.
                difference = max(0.0, mean / most - 1) + min(0.0, mean / least - 1)
                # The spread of our seeds, three deviations of their mean either way, and 3 %.
                within = 3 * deviation / len(found) ** 0.5 / mean + 0.03
                report.add(
                    anchor.name,
                    wanted if isinstance(wanted, int) else f"{wanted}: {' '.join(map(str, chosen))}",
                    metric,
                    f"{least:.4f}" if least == most else f"{least:.3f} to {most:.3f}",
                    f"{mean:.4f}",
                    f"{deviation:.4f}",
                    f"{100 * difference:+.1f} %",
                    f"{100 * within:.1f} %: {'met' if abs(difference) <= within else 'missed'}",
                )
    report.write(options.out, "denoiser-anchors")


Curve = dict[int, dict[str, float]]
"""Epoch → metrics, of one seed."""


def lowest(loss: str) -> Callable[[Curve], int]:
    return lambda curve: min(curve, key=lambda epoch: curve[epoch][loss])


def second_rise(curve: Curve) -> int:
    """The published code of DeCA stops when the loss has risen twice against the look before, and keeps that epoch."""
    n_rises, epochs = 0, sorted(curve)
    for before, now in itertools.pairwise(epochs):
        n_rises += curve[now]["clean-valid-loss"] > curve[before]["clean-valid-loss"]
        if n_rises == 2:
            return now
    return epochs[-1]


CHOICES: dict[str, Callable[[Curve], int]] = {
    "valid-loss": lowest("valid-loss"),
    "revised-valid-loss": lowest("revised-valid-loss"),
    "two rises of valid-loss": second_rise,
}


class NoisyMovies:
    """The split as it is published; every number up to the largest is a user or an item, as in the published code."""

    def __init__(self, folder: Path, device: torch.device):
        rows = {
            part: np.loadtxt(folder / name, dtype=np.int64)
            for part, name in (("train", "train.rating.gz"), ("valid", "valid.rating.gz"), ("test", "test.clean.gz"))
        }
        n_users, n_items = (1 + max(int(values[:, column].max()) for values in rows.values()) for column in (0, 1))
        train, valid, test = (Pairs.sorted_from(values[:, 0], values[:, 1]) for values in rows.values())
        self._memory = MemoryBudget(device)
        split = Split(train, valid, test, n_users, n_items, np.arange(n_users), np.arange(n_items), "as published")
        self._world = build_world(split, Settings(), STRICT, self._memory)
        counts = torch.from_numpy(np.bincount(train.items, minlength=n_items)).to(device)
        self._ranking = FullRanking(test, [train, valid], counts, n_users, (20,), self._memory)
        fives = rows["valid"][rows["valid"][:, 2] == 5]
        liked = replace(split, valid=Pairs.sorted_from(fives[:, 0], fives[:, 1]))
        self._losses = [
            (prefix, ValidationLoss(of_split, 0, TRIMMED, self._memory))
            for prefix, of_split in (("", split), ("clean-", liked))
        ]

    def train(self, anchor: Anchor, seeds: Sequence[int]) -> list[Curve]:
        """What is found at each look, of each seed."""
        denoiser = dict(anchor.denoiser)
        an_epoch = -(-len(self._world.train) // anchor.batch_size)
        settings = TrainingSettings(
            loss="bce",
            batch_size=anchor.batch_size,
            l2=anchor.l2,
            steps=anchor.epochs * an_epoch,
            evaluate_every=anchor.look_every * an_epoch,
        )
        trainer = Trainer(
            members=[Member(self._world, NormalStart(spread=0.1), anchor.l2, seeds, self._validate())],
            negatives=find_part("negatives", "uniform")(owned_too=anchor.owned_too),
            settings=settings,
            select_by=METRICS[0],
            watch=_watch,
            denoiser=find_part("denoisers", denoiser.pop("name"))(**denoiser),
        )
        history = LightGcn(embedding_size=32).fit(self._world, trainer).history
        return [{look.step // an_epoch: look.metrics[replica] for look in history} for replica in range(len(seeds))]

    def _validate(self) -> Validate:
        def validate(scorer: Scorer, replica: int) -> dict[str, float]:
            found = {metric: self._ranking.judge(scorer, replica).overall[metric] for metric in METRICS}
            for prefix, loss in self._losses:
                found |= {f"{prefix}{name}": value for name, value in loss.of(scorer, replica).items()}
            return found

        return validate


def _watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    if evaluation and step % 20 == 0:
        print(f"step {step:,} of {last_step:,}", flush=True)


if __name__ == "__main__":
    main()
