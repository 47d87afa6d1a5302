"""SVD: the degree-normalised interactions, reconstructed at low rank and scaled back by item popularity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from pspns.errors import SettingsError
from pspns.models._choosing import best_on_validation
from pspns.models._dot_product import DotProduct
from pspns.rng import host_stream
from pspns.shapes import Fitted, World
from pspns.spectral import truncated_svd

if TYPE_CHECKING:
    from pspns.training.trainer import Trainer

CANDIDATE_RANKS = (16, 32, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class SvdRanking:
    rank: int | None = None
    """Singular values kept; unset: the best of 16, 32, 64, 128, 256 on validation."""

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise SettingsError(f"rank must be at least 1, got {self.rank}; raise [model] rank")

    def fit(self, world: World, trainer: Trainer) -> Fitted:
        limit = min(world.n_users, world.n_items)
        if self.rank is not None and self.rank > limit:
            raise SettingsError(
                f"rank must be at most min(n_users, n_items) = {limit}, got {self.rank}; lower [model] rank"
            )
        ranks = (self.rank,) if self.rank else [r for r in CANDIDATE_RANKS if r <= limit] or [limit]
        matrix = world.train.matrix(world.n_users, world.n_items)
        U, S, V = truncated_svd(matrix, max(ranks), host_stream(world.data_seed, "svd"), world.device)
        root_degree = torch.from_numpy(np.sqrt(np.bincount(world.train.items, minlength=world.n_items)))
        root_degree = root_degree.to(V)[:, None]

        def scorers() -> Iterator[tuple[int, DotProduct]]:
            for rank in ranks:
                # A new user's row x of the normalised matrix has the factors x V = Σ V_i / √degree_i.
                tables = U[:, :rank] * S[:rank], V[:, :rank] * root_degree, V[:, :rank] / root_degree
                # Row by row in memory, as a file has them: another layout gives products other last bits.
                yield rank, DotProduct(*(table[:, None].contiguous() for table in tables))

        if self.rank:
            return Fitted(scorer=next(scorers())[1])
        return best_on_validation("rank", scorers(), trainer)

    scorer = DotProduct


COMPONENT = SvdRanking
