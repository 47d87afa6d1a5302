"""What denoisers have in common: one that changes nothing, for others to build on."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pspns.components import find_part
from pspns.shapes import (
    JudgedRows,
    ModelView,
    Negatives,
    PositiveBatch,
    Reads,
    ScoredRows,
    State,
)


class Denoising:
    """Base of denoisers; on its own it is plain training."""

    reads: Reads = "nothing"
    stays_on_device = True
    follows_epochs = False

    def __init__(self, loss: str):
        self._loss = find_part("losses", loss)
        self._is_pointwise = loss == "bce"

    def choose_users(self, batch: PositiveBatch) -> PositiveBatch:
        return batch

    def choose_positives(
        self, batch: PositiveBatch, negatives: Negatives, model: ModelView
    ) -> tuple[PositiveBatch, Negatives]:
        return batch, negatives

    def judge(self, rows: ScoredRows) -> JudgedRows:
        return JudgedRows(self._loss(rows.positive, rows.negative))

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        """Nothing is done between epochs."""

    def keep(self, replicas: Tensor) -> None:
        """Nothing is kept."""

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        """Nothing was kept."""
