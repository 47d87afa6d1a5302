"""Everything a model needs to train itself: start, negatives, loss, stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pspns.components import find_part
from pspns.errors import SettingsError
from pspns.models._embedding_model import EmbeddingModel
from pspns.rng import host_stream
from pspns.shapes import Fitted, Validate, World
from pspns.training.epochs import Epochs
from pspns.training.loop import Watch, train
from pspns.training.settings import TrainingSettings
from pspns.training.stopping import EarlyStopping


@dataclass(frozen=True)
class Trainer:
    """Handed to a model's `fit`; a model without a training loop uses only `validate`."""

    world: World
    start: Any  # a part of starts/
    negatives: Any  # a part of negatives/
    settings: TrainingSettings
    seeds: Sequence[int]
    select_by: str  # the metric that chooses, such as recall@20
    validate: Validate | None
    watch: Watch

    def embedding_model(self, size: int) -> EmbeddingModel:
        """Fresh embeddings, one replica for each seed."""
        starts = [self.start.embeddings(self.world, size, host_stream(seed, "start")) for seed in self.seeds]
        return EmbeddingModel(starts, self.world.device)

    def train(self, model: EmbeddingModel) -> Fitted:
        if self.validate is None and self.settings.steps is None:
            raise SettingsError(
                "without a validation part nothing tells when to stop; set --training.steps to a fixed number"
            )
        stopping = EarlyStopping(model, self.settings, self.seeds, self.select_by, self.validate)
        train(
            model,
            Epochs(self.world, self.settings.batch_size, self.seeds),
            self.negatives.start(self.world, self.seeds),
            find_part("losses", self.settings.loss),
            stopping,
            learning_rate=self.settings.learning_rate,
            l2=self.settings.l2,
            last_step=self.settings.steps or self.settings.max_steps,
            interval=self.settings.interval(len(self.world.train)),
            watch=self.watch,
        )
        return Fitted(
            scorer=model.scorer(),
            steps=stopping.last_step,
            best_steps=stopping.best_step,
            history=stopping.history,
        )
