"""Matrix factorisation: a vector for each user and item, their dot product is the score (Koren et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pspns.errors import SettingsError
from pspns.models._dot_product import DotProduct
from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Fitted, World

if TYPE_CHECKING:
    from pspns.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class MatrixFactorisation:
    embedding_size: int = 64
    """Length of each user's and item's vector."""

    def __post_init__(self) -> None:
        if self.embedding_size < 1:
            raise SettingsError(f"embedding_size must be at least 1, got {self.embedding_size}")

    def fit(self, world: World, trainer: Trainer) -> Fitted:
        return trainer.train(EmbeddingModel, self.embedding_size)

    scorer = DotProduct


COMPONENT = MatrixFactorisation
