"""MovieLens-1M, or a generated world of about its size."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import torch

from pspns.data.arrays import read_arrays
from pspns.data.interactions import Interactions
from pspns.data.planted import plant
from pspns.data.split import GivenSplit, Split
from pspns.data.splits.random import RandomSplit
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.run import build_world, make_split
from pspns.settings import Settings
from pspns.shapes import World


def read_data(path: Path) -> Interactions | GivenSplit:
    """A folder of data files, or an .npz of `write_arrays`, which needs numpy alone."""
    if path.suffix == ".npz":
        return read_arrays(path)
    from pspns.data.load import load

    return load(path)


@cache
def movielens() -> tuple[Split, World]:
    """The folder ml-1m of the one that the environment variable PSPNS_DATA names; unset: generated."""
    if folder := os.environ.get("PSPNS_DATA"):
        return _with_world(make_split(read_data(Path(folder) / "ml-1m"), Settings(), STRICT))
    return movielens_sized()


def movielens_sized(n_users: int = 6_000, n_items: int = 3_600) -> tuple[Split, World]:
    """Generated; about 110 pairs a user, split 8:1:1."""
    world = plant(
        "low-rank",
        n_users=n_users,
        n_items=n_items,
        rng=np.random.default_rng(0),
        mean_preferences=n_items / 14.4,
        mean_interactions=n_items / 32.7,
    )
    parts = RandomSplit().assign(world.interactions, np.random.default_rng(0))
    return _with_world(make_split(GivenSplit(world.interactions, parts, "generated"), Settings(), STRICT))


def _with_world(split: Split) -> tuple[Split, World]:
    return split, build_world(split, Settings(), STRICT, MemoryBudget(torch.device("cpu")))
