"""What a search may try: a few values, or a span of numbers.

A part says of itself what is worth trying, in a class variable beside its settings:

    search: ClassVar[Space] = {"copies": Choices((2, 3, 5))}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pspns.errors import SettingsError


@dataclass(frozen=True)
class Choices:
    """One of a few values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise SettingsError(f"a choice needs distinct values, at least one, got {list(self.values)}")

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that are as good as any to see whether a setting takes them."""
        return self.values


@dataclass(frozen=True, kw_only=True)
class Span:
    """Any number between two, both included."""

    low: float
    high: float
    log: bool = False
    """Whether a factor, rather than a difference, is equally likely everywhere."""
    whole: bool = False
    """Whether only whole numbers are meant."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise SettingsError(f"a span needs a low end below its high one, got {self.low} and {self.high}")
        if self.log and not self.low > 0:
            raise SettingsError(f"a logarithmic span must begin above 0, got {self.low}")
        if self.whole and not (isinstance(self.low, int) and isinstance(self.high, int)):
            raise SettingsError(f"a span of whole numbers needs whole ends, got {self.low} and {self.high}")

    @property
    def examples(self) -> tuple[float, float]:
        return self.low, self.high


Space = dict[str, Choices | Span]
"""Setting → what is tried of it; a setting is `section.key`, and beside a part's settings `key` alone."""

EVERY_METHOD: Space = {
    # Few and apart: trials share a loop only at one learning rate (docs/decisions/0032-tuning.md).
    "training.learning_rate": Choices((1e-3, 2e-3, 5e-3)),
    "training.l2": Span(low=1e-5, high=1e-2, log=True),
}
"""What is searched whatever the method."""
