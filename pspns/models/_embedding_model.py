"""A model made of one vector for each user, item and replica: parameters, snapshots, scorer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pspns.models._dot_product import DotProduct
from pspns.shapes import Embeddings, ModelView

Starts = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
"""One pair of (user, item) tables for each replica."""


class EmbeddingModel(nn.Module):
    """Plain embeddings; a model that passes messages overrides what propagates and pulls back."""

    def __init__(self, starts: Starts, device: torch.device):
        super().__init__()
        users, items = (torch.from_numpy(np.stack(tables, axis=1)).to(device) for tables in zip(*starts, strict=True))
        self.users = nn.Parameter(users)  # [n_users, replicas, size]
        self.items = nn.Parameter(items)  # [n_items, replicas, size]

    def propagate(self) -> ModelView:
        base = Embeddings(self.users, self.items)
        return ModelView(base=base, final=base)

    def propagate_layers(self) -> ModelView:
        """The same with each layer by itself; here there is one."""
        base = Embeddings(self.users, self.items)
        return ModelView(base=base, final=base, layers=(base,))

    def pull_back(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The parameters' gradient, given that of the final vectors."""
        return users, items

    @torch.no_grad()
    def scorer(self) -> DotProduct:
        final = self.propagate().final
        return DotProduct(final.users.detach(), final.items.detach())

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the parameters of all replicas."""
        return {name: parameter.detach().clone() for name, parameter in self.named_parameters()}

    @torch.no_grad()
    def scale_replica(self, place: int, factor: float) -> None:
        """Make both tables of one replica longer or shorter."""
        for parameter in self.parameters():
            parameter[:, place] *= factor

    @torch.no_grad()
    def copy_replica(self, place: int, into: dict[str, Tensor], replica: int) -> None:
        """Write the replica at `place` of the axis into `into` as number `replica`."""
        for name, parameter in self.named_parameters():
            into[name][:, replica] = parameter[:, place]

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self.restore({name: parameter.detach()[:, replicas] for name, parameter in self.named_parameters()})

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        for name, values in snapshot.items():
            # A new parameter, not new data in the old one: autograd remembers the old one's shape.
            setattr(self, name, nn.Parameter(values.contiguous()))
