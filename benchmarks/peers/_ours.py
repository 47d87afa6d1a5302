"""Our side of each subject, through the engine as users get it, and the check of what a rival answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers._given import BATCH, LAYERS, SIZE, Given, K
from benchmarks.peers._table import Unit, plain
from pspns.data.split import Split
from pspns.evaluation.ranking import FullRanking
from pspns.models._dot_product import DotProduct
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.rng import ReplicaStream
from pspns.shapes import Fitted, World
from pspns.starts.xavier import XavierStart
from pspns.training.loop import Watch
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

METRIC = f"recall@{K}"
WARM_UP_STEPS = 3
CLOSE = 1e-4


class Subject(Protocol):
    """What is compared: ours takes turns with a rival, whose answer is then checked."""

    unit: Unit

    def turn(self) -> float:
        """Seconds for one unit of ours."""

    def compare(self, answer: Mapping[str, Any]) -> str:
        """How a rival's answer relates to ours, in words."""


class MfTraining:
    """Matrix factorisation with BPR: epochs, and how well the vectors rank the test after them."""

    def __init__(self, split: Split, world: World, given: Given):
        self._world, self._given = world, given
        self._ranking = _test_ranking(split, world)
        self._recall = math.nan
        self.unit = Unit(
            title=f"MF with BPR, size {SIZE}, batch {BATCH:,}",
            what=f"seconds per epoch of {given.epochs}",
            meaning=f"Recall@{K} of the test, train and validation masked, after {given.epochs} epochs, all judged by "
            "our evaluator. Each library with its own start and defaults where the note says nothing else.",
            show=plain(3),
        )

    def turn(self) -> float:
        began = time.perf_counter()
        steps = self._given.epochs * _steps_per_epoch(self._given)
        fitted = MatrixFactorisation(embedding_size=SIZE).fit(self._world, _trainer(self._world, steps=steps))
        seconds = time.perf_counter() - began
        self._recall = self._ranking.judge(fitted.scorer, 0).overall[METRIC]
        return seconds / self._given.epochs

    def compare(self, answer: Mapping[str, Any]) -> str:
        recall = self._ranking.judge(_scorer(answer["users"], answer["items"]), 0).overall[METRIC]
        return f"Recall@{K} {recall:.4f}, ours {self._recall:.4f}"


class LightGcnTraining:
    """LightGCN: steps, and whether the same start propagates to the same vectors."""

    def __init__(self, split: Split, world: World, given: Given):
        self._world, self._steps = world, given.steps
        per_epoch = _steps_per_epoch(given)
        self.unit = Unit(
            title=f"LightGCN, size {SIZE}, {LAYERS} layers, batch {BATCH:,}",
            what=f"milliseconds per step (and scaled to an epoch of {per_epoch:,} steps: not run)",
            meaning=f"The same start, propagated: largest difference of a number from ours, as a share of the largest "
            f"number; {CLOSE:g} or less counts as equal. Turns of {given.steps} steps after a warm-up.",
            show=lambda seconds: f"{1000 * seconds:.1f} ({seconds * per_epoch:.1f} s)",
        )
        # A rate so small that no number changes: what is fitted is the start itself, propagated.
        start = _GivenStart(given.user_vectors, given.item_vectors)
        scorer = self._fit(_trainer(world, steps=1, start=start, learning_rate=1e-30)).scorer
        self._propagated = [scorer.tensors()[name][:, 0].numpy() for name in ("users", "items")]

    def turn(self) -> float:
        moments: dict[int, float] = {}

        def watch(step: int, last_step: int, evaluation: object) -> None:
            moments[step] = time.perf_counter()

        self._fit(_trainer(self._world, steps=WARM_UP_STEPS + self._steps, watch=watch))
        first, last = min(step for step in moments if step >= WARM_UP_STEPS), max(moments)
        return (moments[last] - moments[first]) / (last - first)

    def compare(self, answer: Mapping[str, Any]) -> str:
        difference = max(
            float(np.abs(theirs - ours).max() / np.abs(ours).max())
            for theirs, ours in zip((answer["users"], answer["items"]), self._propagated, strict=True)
        )
        return f"equal to {difference:.0e}" if difference <= CLOSE else f"not the same answer: {difference:.2g} off"

    def _fit(self, trainer: Trainer) -> Fitted:
        return LightGcn(embedding_size=SIZE, layers=LAYERS).fit(self._world, trainer)


class Ranking:
    """The test part ranked in full from given vectors."""

    def __init__(self, split: Split, world: World, given: Given):
        self._ranking = _test_ranking(split, world)
        self._scorer = _scorer(given.user_vectors, given.item_vectors)
        self._recall = math.nan
        self.unit = Unit(
            title=f"Full ranking of {len(self._ranking.users):,} users, k = {K}, train and validation masked",
            what="seconds",
            meaning=f"Recall@{K} of the same vectors; {CLOSE:g} or less off counts as equal, because scores that "
            "float32 cannot tell apart change places at the end of a list. Ours computes six metrics in that time.",
            show=plain(3),
        )

    def turn(self) -> float:
        began = time.perf_counter()
        self._recall = self._ranking.judge(self._scorer, 0).overall[METRIC]
        return time.perf_counter() - began

    def compare(self, answer: Mapping[str, Any]) -> str:
        recall = float(answer["recall"])
        difference = abs(recall - self._recall)
        if difference <= CLOSE:
            words = f"{recall:.6f}, equal" + (f" to {difference:.0e}" if difference > 1e-9 else "")
        else:
            words = f"{recall:.6f}, not the same answer: ours {self._recall:.6f}"
        if "own_recall" in answer:
            words += f" (its lists; it reports {float(answer['own_recall']):.6f}, divided by min(k, held-out items))"
        return words


class NegativeDraws:
    """One negative for each of many users, never one of their train items."""

    def __init__(self, split: Split, world: World, given: Given):
        self._world, self._given = world, given
        self._users = torch.from_numpy(given.draw_for)[None]
        self._stream = ReplicaStream([0], "negatives")
        self._known = given.train[:, 0] * given.n_items + given.train[:, 1]
        self.unit = Unit(
            title=f"Uniform negatives, {len(given.draw_for):,} at once, none of them a train item",
            what="million a second",
            meaning="How many of the draws are train items of their user (ours: checked, none).",
            show=lambda seconds: f"{1 / seconds:.1f}",
        )
        if self._n_known(self._draw()):
            raise AssertionError("ours drew a train item: no time is worth reporting")

    def turn(self) -> float:
        began = time.perf_counter()
        self._draw()
        return (time.perf_counter() - began) / (len(self._given.draw_for) / 1e6)

    def compare(self, answer: Mapping[str, Any]) -> str:
        n_known = self._n_known(answer["items"])
        return f"{n_known:,} of {len(answer['items']):,} are train items" if n_known else "none is a train item"

    def _draw(self) -> NDArray[np.int64]:
        return self._world.rejected.draw_outside(self._users, 1, self._stream).flatten().numpy()

    def _n_known(self, items: NDArray[np.int64]) -> int:
        return int(np.isin(self._given.draw_for * self._given.n_items + items, self._known).sum())


SUBJECTS: dict[str, Callable[[Split, World, Given], Subject]] = {
    "mf": MfTraining,
    "lightgcn": LightGcnTraining,
    "ranking": Ranking,
    "negatives": NegativeDraws,
}


@dataclass(frozen=True)
class _GivenStart:
    """A part of starts/ that gives these vectors."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]

    def embeddings(self, *_: object) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.users, self.items


def _trainer(
    world: World, *, steps: int, start: Any = None, learning_rate: float = 1e-3, watch: Watch = lambda *_: None
) -> Trainer:
    settings = TrainingSettings(steps=steps, batch_size=BATCH, learning_rate=learning_rate)
    member = Member(world, start or XavierStart(), settings.l2, (0,), None)
    return Trainer([member], UniformNegatives(), settings, METRIC, watch)


def _steps_per_epoch(given: Given) -> int:
    return math.ceil(len(given.train) / BATCH)


def _scorer(users: NDArray[np.floating[Any]], items: NDArray[np.floating[Any]]) -> DotProduct:
    return DotProduct(*(torch.from_numpy(table.astype(np.float32))[:, None] for table in (users, items)))


def _test_ranking(split: Split, world: World) -> FullRanking:
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items))
    return FullRanking(split.test, [split.train, split.valid], counts, split.n_users, (K,), world.memory)
