"""The graph that messages pass along: who is joined to what, and how strongly."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy import sparse

from pspns.errors import SettingsError
from pspns.shapes import World

Edges = Literal["train", "merged", "merged-weighted"]


def check_edges(edges: str) -> None:
    if edges not in get_args(Edges):
        raise SettingsError(f"graph must be one of {', '.join(get_args(Edges))}, got '{edges}'; change [model] graph")


def edge_weights(world: World, edges: Edges) -> sparse.csr_array:
    """Users × items: train pairs; or the positive pairs, each once, or as often as it is copied."""
    if edges == "train":
        return world.train.matrix(world.n_users, world.n_items).astype(np.float32)
    pairs = world.pairs
    weights = pairs.copies if edges == "merged-weighted" else np.ones(len(pairs))
    shape = (world.n_users, world.n_items)
    return sparse.csr_array((weights.astype(np.float32), (pairs.users, pairs.items)), shape=shape)
