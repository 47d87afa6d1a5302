"""Curves over the values of a setting: where they are best, and whether they rise and then fall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pspns.evaluation.significance import holm
from pspns.experiments.records import Seen
from pspns.experiments.reproduction._comparisons import p_value

CLEAR = 0.05


@dataclass(frozen=True)
class Curve:
    """Mean figures in percent by the values of a setting, from the smallest to the largest."""

    figures: Mapping[float, float]
    p_values: tuple[float, float] | None = None
    """That the smallest value is as good as the best, and that the largest is; None: nobody can tell."""

    @classmethod
    def of(cls, seen: Mapping[float, Seen | None], metric: str) -> Curve | None:
        """None where a record is missing: an end that was not measured may be the best."""
        found = {value: one for value, one in sorted(seen.items()) if one is not None}
        if len(found) < len(seen) or not found:
            return None
        curve = cls({value: 100 * one.mean(metric) for value, one in found.items()})
        tested = [p_value(found[curve.best], found[end]) for end in curve.ends] if metric == "recall@20" else []
        low, high = tested or (None, None)
        if low is None or high is None:
            return curve
        corrected = holm([low, high]).tolist()
        return cls(curve.figures, (corrected[0], corrected[1]))

    @property
    def ends(self) -> tuple[float, float]:
        values = list(self.figures)
        return values[0], values[-1]

    @property
    def best(self) -> float:
        """The smallest of equals."""
        return max(self.figures, key=lambda value: self.figures[value])

    @property
    def rises_and_falls(self) -> bool:
        """Whether neither end is best; in between it may go up and down."""
        low, high = self.ends
        return self.figures[self.best] > max(self.figures[low], self.figures[high])

    @property
    def shape(self) -> str:
        """In words."""
        if self.rises_and_falls:
            return "rises and then falls"
        return "is best at an end of the grid" if len(set(self.figures.values())) > 1 else "stays the same"

    @property
    def luck(self) -> str:
        """Said where an end may be as good as the best."""
        if self.p_values is None or not self.rises_and_falls:
            return ""
        ends = [f"{end:g}, p = {p:.2f}" for end, p in zip(self.ends, self.p_values, strict=True) if p >= CLEAR]
        return f"as good may be {'; '.join(ends)}" if ends else ""

    def __str__(self) -> str:
        """The best, and the ends beside it.

        >>> str(Curve({1: 30.0, 2: 31.5, 3: 31.0}))
        '31.50 at 2, the best; 30.00 at 1; 31.00 at 3'
        """
        ends = [f"{self.figures[end]:.2f} at {end:g}" for end in dict.fromkeys(self.ends) if end != self.best]
        return "; ".join((f"{self.figures[self.best]:.2f} at {self.best:g}, the best", *ends))
