"""What the `with_*` examples share: one trainer on observed pairs and on built ones, the outcomes side by side."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pspns.api import build_positives
from pspns.built_positives import BuiltPositives
from pspns.components import find_part, part_names
from pspns.data.planted import PlantedWorld
from pspns.errors import PspnsError

K = 20
SHOWN_USERS = 200

Lists = NDArray[np.integer]  # [users, K] item numbers, best first
Trainer = Callable[[BuiltPositives, sparse.csr_matrix], Lists]
"""Trains on positives, then ranks, for the first users, the items that their observed rows lack."""


def compare(description: str, trainers: dict[str, Trainer]) -> None:
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--data", default="planted-clustered", help="a file, a folder or a data set's name")
    data = parser.parse_args().data

    try:
        observed, built = build_positives(data, recipe="plain"), build_positives(data, recipe="paper")
    except PspnsError as error:
        parser.error(str(error))
    seen = observed_rows(observed)
    world = planted_world(data)
    for name, train in trainers.items():
        for how, positives in (("observed", observed), ("built", built)):
            lists = train(positives, seen)
            top = positives.item_ids[lists[0, :5]].tolist()
            print(f"{name}, {how} positives: user {positives.user_ids[0]} is offered {top}")
            if world is not None:
                print(f"{name}, {how} positives: {truth_share(world, positives, lists):.3f} of the top {K} are true")
    if world is not None:
        print(f"a random ranking: {random_share(world, observed, seen):.3f} of the top {K} are true")


def observed_rows(observed: BuiltPositives) -> sparse.csr_matrix:
    """Who has what already. Injected pairs are left out, so that they may be recommended."""
    return sparse.csr_matrix(observed.matrix())[:SHOWN_USERS]


def top_unobserved(scores: NDArray[np.floating], seen: sparse.csr_matrix) -> Lists:
    """Scores `[users, items]` → the K best items of each user among those they do not have yet."""
    scores = np.where(seen.toarray() > 0, -np.inf, scores)
    return np.argsort(-scores, axis=1, kind="stable")[:, :K]


def planted_world(data: str) -> PlantedWorld | None:
    """The truth behind generated data; of other data nobody knows it."""
    dataset = find_part("datasets", data)() if data in part_names("datasets") else None
    return dataset.plant() if hasattr(dataset, "plant") else None


def truth_share(world: PlantedWorld, positives: BuiltPositives, lists: Lists) -> float:
    """The share of recommended items that the user truly likes."""
    users = np.repeat(positives.user_ids[: len(lists)], lists.shape[1])
    return world.accuracy(users, positives.item_ids[lists.ravel()])


def random_share(world: PlantedWorld, observed: BuiltPositives, seen: sparse.csr_matrix) -> float:
    """What `truth_share` would be on average if items that the user does not have were drawn blindly."""
    is_liked = world.preferences[observed.user_ids[: seen.shape[0]]][:, observed.item_ids].toarray()
    is_unseen = seen.toarray() == 0
    return float(((is_liked & is_unseen).sum(axis=1) / is_unseen.sum(axis=1)).mean())
