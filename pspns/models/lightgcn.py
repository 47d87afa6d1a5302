"""LightGCN: vectors passed along the graph, the mean of all layers is what scores are made of (He et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pspns.errors import SettingsError
from pspns.models._dot_product import DotProduct
from pspns.models._embedding_model import EmbeddingModel, Starts
from pspns.models._graph import Edges, check_edges, edge_weights
from pspns.models._propagation import MeanOfLayers, best_operator, propagate
from pspns.shapes import Embeddings, Fitted, ModelView, World

if TYPE_CHECKING:
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
        edges = edge_weights(world, self.graph)
        exact = rounded = best_operator(edges, self.layers, world.memory)
        if trainer.settings.precision == "mixed":
            rounded = best_operator(edges, self.layers, world.memory, mixed=True)
        return trainer.train(lambda starts, device: GraphModel(starts, device, rounded, exact), self.embedding_size)

    scorer = DotProduct


class GraphModel(EmbeddingModel):
    """Embeddings that are passed along a graph: by one operator in training, by an exact one for what is kept."""

    def __init__(self, starts: Starts, device: torch.device, operator: MeanOfLayers, exact: MeanOfLayers | None = None):
        super().__init__(starts, device)
        self._operator = operator
        self._exact = exact or operator

    def propagate(self) -> ModelView:
        users, items = propagate(self._operator, self.users, self.items)
        return ModelView(base=Embeddings(self.users, self.items), final=Embeddings(users, items))

    @torch.no_grad()
    def scorer(self) -> DotProduct:
        return DotProduct(*propagate(self._exact, self.users, self.items))


COMPONENT = LightGcn
