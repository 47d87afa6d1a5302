"""Spectral start: the singular vectors of train, so that untrained factors rank as the model `svd` does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pspns.errors import SettingsError
from pspns.search_space import Space, Span
from pspns.shapes import World
from pspns.spectral import gram
from pspns.starts._score_spread import score_deviation
from pspns.starts.xavier import XavierStart

# Beside the largest singular value, which is 1; where the data have no further direction, rounding leaves up to 1e-7.
LEAST_SINGULAR_VALUE = 1e-5


@dataclass(frozen=True, kw_only=True)
class SpectralStart:
    """Users U·√Σ, items V·√Σ·√degree: equally long on average, and scaled to a given spread of the scores.

    Every seed starts alike. A user or item without train pairs starts at 0, and moves as soon as it meets another.
    """

    score_spread: float = 0.3  # the best of 0.3, 1 and 3 on validation: docs/results.md
    """Standard deviation of the scores that the untrained model gives; all users × all items."""

    search: ClassVar[Space] = {"score_spread": Span(low=0.1, high=3.0, log=True)}

    def __post_init__(self) -> None:
        if not 0 < self.score_spread < math.inf:
            raise SettingsError(
                f"score_spread must be above 0 and finite, got {self.score_spread:g}; change [start] score_spread"
            )

    def svd_rank(self, size: int) -> int:
        """The rank at which vectors of this size need the SVD of train."""
        return size

    def embeddings(
        self, world: World, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        users, items = (table.float().cpu().numpy() for table in self._factors(world, size))
        n_found = users.shape[1]
        if n_found == size:
            return users, items
        # Where the data have fewer directions than the vectors, users are random and items 0 in the rest: no dot
        # product changes, and yet the items have a gradient. Were both 0, neither would ever move. (Messages carry a
        # little of it to the items.)
        random, _ = XavierStart().embeddings(world, size, rng)
        return np.hstack([users, random[:, n_found:]]), np.pad(items, ((0, 0), (0, size - n_found)))

    def _factors(self, world: World, size: int) -> tuple[Tensor, Tensor]:
        """Users and items in float64, with at most `size` columns."""
        U, S, V = world.svd.factors(world, size)
        n_found = int((S / S[0] > LEAST_SINGULAR_VALUE).sum())
        degrees = torch.from_numpy(np.bincount(world.train.items, minlength=world.n_items)).to(V.device)
        root_values = S[:n_found].double().sqrt()
        users = U[:, :n_found] * root_values
        items = V[:, :n_found] * root_values * degrees.double().sqrt()[:, None]
        balance = math.sqrt(_row_length(items) / _row_length(users))
        users, items = users * balance, items / balance
        # Scores that are all equal have no spread whatever the factor; they stay as they are.
        deviation = score_deviation(users, items)
        factor = math.sqrt(self.score_spread / deviation) if deviation > 0 else 1.0
        return users * factor, items * factor


def _row_length(rows: Tensor) -> float:
    """Root of the mean of the squared lengths."""
    return math.sqrt(float(gram(rows).trace()) / len(rows))


COMPONENT = SpectralStart
