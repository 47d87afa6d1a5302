"""A generated world of about the size of MovieLens-1M."""

from __future__ import annotations

import numpy as np
import torch

from pspns.data.planted import plant
from pspns.data.split import Split
from pspns.data.splits.random import RandomSplit
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.run import build_world
from pspns.settings import Settings
from pspns.shapes import World


def movielens_sized() -> tuple[Split, World]:
    """6,000 users × 3,600 items, about 660,000 pairs, split 8:1:1."""
    world = plant(
        "low-rank",
        n_users=6_000,
        n_items=3_600,
        rng=np.random.default_rng(0),
        mean_preferences=250,
        mean_interactions=110,
    )
    parts = RandomSplit().assign(world.interactions, np.random.default_rng(0))
    split = Split.from_parts(world.interactions, parts, "benchmark")
    return split, build_world(split, Settings(), STRICT, MemoryBudget(torch.device("cpu")))
