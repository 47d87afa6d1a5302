"""Curves over the values of a setting: which value validation chooses, and whether the test has it above both ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pspns.evaluation.significance import holm
from pspns.experiments.records import Seen, p_value

CLEAR = 0.05


@dataclass(frozen=True)
class Curve:
    """Mean figures in percent by the values of a setting, from the smallest to the largest."""

    figures: Mapping[float, float]
    """Of the test."""
    chosen: float
    """The best on validation: what is best on the test is so by luck, too, and could not be tested there."""
    p_values: tuple[float, float] | None = None
    """That the smallest value is as good as the chosen one, and that the largest is; None: nobody can tell."""

    @classmethod
    def of(cls, seen: Mapping[float, Seen | None], metric: str) -> Curve | None:
        """None where a record is missing, since an end that was not measured may be the best, or has no validation."""
        found = {value: one for value, one in sorted(seen.items()) if one is not None}
        chosen = chosen_on_validation(found, metric)
        if len(found) < len(seen) or chosen is None:
            return None
        curve = cls({value: 100 * one.mean(metric) for value, one in found.items()}, chosen)
        low, high = (p_value(found[chosen], found[end], metric) for end in curve.ends)
        if low is None or high is None:
            return curve
        corrected = holm([low, high]).tolist()
        return cls(curve.figures, chosen, (corrected[0], corrected[1]))

    @property
    def ends(self) -> tuple[float, float]:
        values = list(self.figures)
        return values[0], values[-1]

    @property
    def is_best_inside(self) -> bool:
        """Whether the test has the chosen value above both ends; in between it may go up and down."""
        low, high = self.ends
        return self.figures[self.chosen] > max(self.figures[low], self.figures[high])

    @property
    def shape(self) -> str:
        """In words."""
        if self.is_best_inside:
            return "is best inside the grid"
        if len(set(self.figures.values())) == 1:
            return "stays the same"
        if self.chosen in self.ends:
            return "is best at an end of the grid"
        return "is best inside the grid on validation, and not on the test"

    @property
    def luck(self) -> str:
        """Said where an end may be as good as the chosen value."""
        if self.p_values is None or not self.is_best_inside:
            return ""
        ends = [f"{end:g}, p = {p:.2f}" for end, p in zip(self.ends, self.p_values, strict=True) if p >= CLEAR]
        return f"as good may be {'; '.join(ends)}" if ends else ""

    def __str__(self) -> str:
        """The chosen value, and the ends beside it.

        >>> str(Curve({1: 30.0, 2: 31.5, 3: 31.0}, chosen=2))
        '31.50 at 2, which validation chose; 30.00 at 1; 31.00 at 3'
        """
        ends = [f"{self.figures[end]:.2f} at {end:g}" for end in dict.fromkeys(self.ends) if end != self.chosen]
        return "; ".join((f"{self.figures[self.chosen]:.2f} at {self.chosen:g}, which validation chose", *ends))


def chosen_on_validation(seen: Mapping[float, Seen | None], metric: str) -> float | None:
    """The value with the best mean over seeds, the first of equals; None where there is no validation."""
    found = {value: one.record["valid"].get(metric) for value, one in seen.items() if one}
    means = {value: float(figures["mean"]) for value, figures in found.items() if figures}
    return max(means, key=lambda value: means[value], default=None)
