"""LightGCN: vectors passed along the graph, the mean of all layers is what scores are made of (He et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pspns.errors import SettingsError
from pspns.models._dot_product import DotProduct
from pspns.models._embedding_model import EmbeddingModel, Starts
from pspns.models._graph import Edges, check_edges, edge_weights
from pspns.models._propagation import MeanOfLayers, best_operator, propagate
from pspns.shapes import Embeddings, Fitted, ModelView, World

if TYPE_CHECKING:
    import torch

    from pspns.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class LightGcn:
    embedding_size: int = 64
    """Length of each user's and item's vector."""
    layers: int = 3
    """How often messages pass; 0 is matrix factorisation."""
    graph: Edges = "train"
    """Whose pairs are the edges: train, merged (the positive pairs, each once), or merged-weighted (copies count)."""

    def __post_init__(self) -> None:
        if self.embedding_size < 1:
            raise SettingsError(f"embedding_size must be at least 1, got {self.embedding_size}")
        if self.layers < 0:
            raise SettingsError(f"layers must be at least 0, got {self.layers}")
        check_edges(self.graph)

    def fit(self, world: World, trainer: Trainer) -> Fitted:
        operator = best_operator(
            edge_weights(world, self.graph), self.layers, world.memory, mixed=trainer.settings.precision == "mixed"
        )
        return trainer.train(
            lambda starts, device: GraphModel(starts, device, operator), self.embedding_size
        )

    scorer = DotProduct


class GraphModel(EmbeddingModel):
    def __init__(self, starts: Starts, device: torch.device, operator: MeanOfLayers):
        super().__init__(starts, device)
        self._operator = operator

    def propagate(self) -> ModelView:
        users, items = propagate(self._operator, self.users, self.items)
        return ModelView(base=Embeddings(self.users, self.items), final=Embeddings(users, items))


COMPONENT = LightGcn
