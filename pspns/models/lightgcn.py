"""LightGCN: vectors passed along the graph, the mean of all layers is what scores are made of (He et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from scipy import sparse
from torch import Tensor

from pspns.csr import degree_scales
from pspns.errors import SettingsError
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.models._embedding_model import EmbeddingModel, Starts
from pspns.models._graph import Edges, check_edges, edge_weights
from pspns.models._propagation import MeanOfLayers, best_operator, propagate
from pspns.shapes import Embeddings, Fitted, ModelView, World, mean_of

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
        fold = ItemsOfNewUsers(edges, self.layers, world.memory) if self.layers else None
        by_layers = LayerByLayer(edges, self.layers, world.memory, mixed=trainer.settings.precision == "mixed")
        return trainer.train(
            lambda starts, device: GraphModel(starts, device, rounded, exact, fold, by_layers), self.embedding_size
        )

    scorer = DotProduct


class LayerByLayer:
    """Each layer by itself, for samplers that read them; made when first asked for."""

    def __init__(self, edges: sparse.csr_array, layers: int, memory: MemoryBudget, *, mixed: bool = False):
        self._edges, self._layers, self._memory, self._mixed = edges, layers, memory, mixed

    @cached_property
    def _next_layer(self) -> MeanOfLayers:
        return best_operator(self._edges, 1, self._memory, mixed=self._mixed, with_first=False)

    def view(self, base: Embeddings) -> ModelView:
        layers = [base]
        for _ in range(self._layers):
            layers.append(Embeddings(*propagate(self._next_layer, layers[-1].users, layers[-1].items)))
        users, items = (mean_of([getattr(layer, side) for layer in layers]) for side in ("users", "items"))
        return ModelView(base=base, final=Embeddings(users, items), layers=layers)


class ItemsOfNewUsers:
    """What an item adds to the vector of a user who joins the graph with no vector of their own.

    Layer l+1 of such a user is Σ_i eˡ_i / √(degree_i · n), so up to a factor an item adds Σ_{l<L} eˡ_i / √degree_i.
    """

    def __init__(self, edges: sparse.csr_array, layers: int, memory: MemoryBudget):
        self._but_the_last = best_operator(edges, layers - 1, memory)
        _, item_scale = degree_scales(edges)
        self._scale = torch.from_numpy(item_scale).to(memory.device, torch.float32)[:, None, None]

    def table(self, users: Tensor, items: Tensor) -> Tensor:
        return self._scale * propagate(self._but_the_last, users, items)[1]


class GraphModel(EmbeddingModel):
    """Embeddings passed along a graph: by one operator in training, by one as exact as float32 for what is kept."""

    def __init__(
        self,
        starts: Starts,
        device: torch.device,
        operator: MeanOfLayers,
        exact: MeanOfLayers | None = None,
        fold: ItemsOfNewUsers | None = None,
        by_layers: LayerByLayer | None = None,
    ):
        super().__init__(starts, device)
        self._operator = operator
        self._exact = exact or operator
        self._fold = fold
        self._by_layers = by_layers

    def propagate(self) -> ModelView:
        users, items = propagate(self._operator, self.users, self.items)
        return ModelView(base=Embeddings(self.users, self.items), final=Embeddings(users, items))

    def propagate_layers(self) -> ModelView:
        assert self._by_layers, "a model for samplers that read layers is made with them"
        return self._by_layers.view(Embeddings(self.users, self.items))

    def pull_back(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        return propagate(self._operator, users, items)  # the operator is symmetric

    @torch.no_grad()
    def scorer(self) -> DotProduct:
        fold = self._fold.table(self.users, self.items) if self._fold else None
        return DotProduct(*propagate(self._exact, self.users, self.items), fold)


COMPONENT = LightGcn
