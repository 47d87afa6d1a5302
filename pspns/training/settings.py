"""How long and how fast to train."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from pspns.errors import SettingsError

Precision = Literal["float32", "mixed"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    loss: str = "bpr"
    """What a row's scores are judged by; `pspns list losses` names the choices."""
    batch_size: int = 2048
    """Positive pairs in one step."""
    copies_together: bool = False
    """Whether the copies of a pair come in one step, each with a negative of its own, and not at random times."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    l2: float = 1e-4
    """Weight λ of the squared length of the embeddings a step touches."""
    steps: int | None = None
    """Train exactly this many steps and keep the last state; unset: stop early, keep the best."""
    max_steps: int = 200_000
    """Stop here even if validation still improves."""
    evaluate_every: int | None = None
    """Steps between two evaluations; unset: those of five passes over train, 5·⌈pairs / batch⌉."""
    patience: int = 10
    """Evaluations without improvement before a replica stops."""
    precision: Precision = "float32"
    """How messages are passed in training on a GPU: float32, or mixed (rounded to 8 or 11 bits, summed in float32).
    What is judged and kept is float32 either way."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_steps", "patience"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("steps", "evaluate_every"):
            value = getattr(self, name)
            self._check(name, value is None or value >= 1, "at least 1")
        self._check("learning_rate", 0 < self.learning_rate < math.inf, "above 0")
        self._check("l2", 0 <= self.l2 < math.inf, "at least 0")

        self._check("precision", self.precision in get_args(Precision), " or ".join(get_args(Precision)))

    def _check(self, name: str, is_good: bool, expected: str) -> None:
        if not is_good:
            raise SettingsError(f"{name} must be {expected}, got {getattr(self, name)}; change [training] {name}")

    def interval(self, n_train: int) -> int:
        """Steps between evaluations: the same for every method, however long its epochs are."""
        return self.evaluate_every or 5 * math.ceil(n_train / self.batch_size)
