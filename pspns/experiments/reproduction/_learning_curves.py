"""Learning curves from records: validation Recall@20 by steps and by seconds, each seed's own."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass

from pspns.experiments.records import Record

METRIC = "recall@20"


@dataclass(frozen=True)
class Look:
    step: int
    seconds: float
    value: float  # in percent


@dataclass(frozen=True)
class Reached:
    """When a target was reached: means over the seeds that did."""

    steps: float
    seconds: float
    n_seeds: int


@dataclass(frozen=True)
class LearningCurve:
    """Looks at validation, seed by seed; a seed that has stopped has no more of them."""

    looks: tuple[tuple[Look, ...], ...]
    record: str
    """Its name."""

    @classmethod
    def of(cls, record: Record, name: str) -> LearningCurve:
        """Seconds count from before the pairs are constructed, without what compiling takes."""
        construction = float(record["seconds"]["positives"])
        at = {step: construction + seconds for step, seconds in training_seconds(record).items()}
        return cls(
            tuple(
                tuple(Look(step, at[step], 100 * value) for step, value in seed)
                for seed in record[f"curve_{METRIC}"].values()
            ),
            name,
        )

    @property
    def bests(self) -> list[float]:
        """Of each seed."""
        return [max(look.value for look in seed) for seed in self.looks]

    @property
    def best(self) -> float:
        return statistics.mean(self.bests)

    def reached(self, targets: float | list[float]) -> Reached | None:
        """The first looks at or above the target, which may be each seed's own; None if no seed came to it."""
        own = targets if isinstance(targets, list) else [targets] * len(self.looks)
        first = [
            next((look for look in seed if look.value >= target), None)
            for seed, target in zip(self.looks, own, strict=True)
        ]
        found = [look for look in first if look]
        if not found:
            return None
        steps, seconds = (statistics.mean(values) for values in zip(*((x.step, x.seconds) for x in found), strict=True))
        return Reached(steps, seconds, len(found))

    def own_share(self, share: float) -> Reached:
        """When each seed came to this share of its own best."""
        found = self.reached([share * best for best in self.bests])
        assert found is not None
        return found

    def unsteadiness(self, share: float) -> float | None:
        """The mean change from one look to the next once a seed has come to this share of its best, in percent of that
        best; None if nothing follows."""
        changes = []
        for seed, best in zip(self.looks, self.bests, strict=True):
            start = next(place for place, look in enumerate(seed) if look.value >= share * best)
            settled = seed[start:]
            changes += [
                100 * abs(after.value - before.value) / best for before, after in itertools.pairwise(settled) if best
            ]
        return statistics.mean(changes) if changes else None

    def while_all_train(self) -> list[tuple[Look, ...]]:
        """The looks at which no seed has stopped yet, `[looks][seeds]`."""
        return list(zip(*self.looks, strict=False))


def training_seconds(record: Record) -> dict[int, float]:
    """Step → seconds at the look. Until the first look loops are compiled and recorded, by whoever comes first in a
    process; so that stretch counts no longer than the second.

    >>> training_seconds({"looks": [[10, 9.0], [20, 10.0], [30, 12.0]]})
    {10: 1.0, 20: 2.0, 30: 4.0}
    """
    looks = [(int(step), float(seconds)) for step, seconds in record["looks"]]
    too_long = 0.0
    if len(looks) > 1:
        (first_step, first), (second_step, second) = looks[:2]
        too_long = max(0.0, first - (second - first) * first_step / (second_step - first_step))
    return {step: seconds - too_long for step, seconds in looks}
