"""What weightings share: a sensitivity, and nothing for users without pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Floats, Ints
from pspns.errors import SettingsError
from pspns.search_space import Space, Span


@dataclass(frozen=True, kw_only=True)
class ActivityWeighting:
    """A user's weight t_u from the number d of their distinct training pairs; `of` gives it for d of at least 1."""

    sensitivity: float = 0.01
    """How strongly activity counts, a in the paper."""

    search: ClassVar[Space] = {"sensitivity": Span(low=0.01, high=1.0, log=True)}

    def __post_init__(self) -> None:
        if not 0 < self.sensitivity < math.inf:
            raise SettingsError(
                f"sensitivity must be a finite number above 0, got {self.sensitivity:g}; change [weighting] sensitivity"
            )

    def weights(self, n_pairs: Ints) -> NDArray[np.float32]:
        """`[n_users]`; a user without pairs weighs 0."""
        of_active = self.of(self.sensitivity * np.maximum(n_pairs, 1).astype(np.float64))
        # Tiny sensitivities give huge weights; they must stay numbers.
        largest = np.finfo(np.float32).max / 1e6
        return np.where(n_pairs > 0, np.minimum(of_active, largest), 0).astype(np.float32)

    def of(self, activity: Floats) -> Floats:
        """The weight at activity a·d."""
        raise NotImplementedError
