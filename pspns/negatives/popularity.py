"""PNS, popular negatives: an item the user does not have, popular ones more often.

Rule: p(j) ∝ c_j^exponent over I ∖ P_u
      c_j = number of users who have j in train
Note: the exponent is word2vec's. An item that nobody has in train is never drawn, unless the exponent is 0.
Cost: one draw and two binary searches a row
Paper: Mikolov et al. 2013, Distributed Representations of Words and Phrases and their Compositionality
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pspns.needed_bytes import StepSizes
from pspns.negatives._stream_sampler import StreamSampler
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least
from pspns.shapes import ModelView, Negatives, PositiveBatch, SharedWorld, World
from pspns.weighted_draws import WeightedDraws


@dataclass(frozen=True, kw_only=True)
class PopularNegatives:
    exponent: float = 0.75
    """How strongly popularity counts; 0 is uniform."""
    logarithmic: bool = False
    """Weights log(c + 1) instead of c^exponent, as the code published with DNS(M,N) does."""

    search: ClassVar[Space] = {"exponent": Choices((0.25, 0.5, 0.75, 1.0))}

    def __post_init__(self) -> None:
        check_least(self, exponent=0)

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> PopularSampler:
        # Pairs of train, each once: neither constructed pairs nor held-out ones make an item more popular.
        counts = np.bincount(world.train.items, minlength=world.n_items).astype(np.float64)
        # Of the largest, lest a high power be too large for any number.
        weights = np.log1p(counts) if self.logarithmic else (counts / counts.max()) ** self.exponent
        return PopularSampler(world, seeds, weights)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        # Stretches of the items, and for each item that may not be drawn, where it was cut out and how much.
        return 8 * (world.n_items + 2 * world.n_users + 2 * len(world.rejected.keys)) + sizes.of_rows(5 * 8)


class PopularSampler(StreamSampler):
    stays_on_device = True
    reads = "nothing"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], weights: NDArray[np.float64]):
        super().__init__(world, seeds)
        self._draws = WeightedDraws(world.rejected, world.n_users, weights)

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        return Negatives(items=self._draws.draw(batch.users, self._stream))


COMPONENT = PopularNegatives
