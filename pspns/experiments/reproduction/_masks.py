"""Masks that a test could have: which pairs are left out of the ranking, and which held-out labels shaped that.

For the experiment `protocol` alone. Two of them are a protocol's own; the others exist nowhere else.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pspns.data.interactions import Ints
from pspns.data.split import Pairs, Split
from pspns.evaluation.protocol import Known
from pspns.item_sets import ItemSets
from pspns.shapes import PositivePairs

TRAIN = "train"
TRAIN_VALID = "train+valid"
SPARED = "psp, held-out spared"
NOT_SPARED = "psp, held-out not spared"
RANDOM = "random, as many"
MASKS = (TRAIN, TRAIN_VALID, SPARED, NOT_SPARED, RANDOM)

Masks = dict[str, list[Pairs]]
"""Name → the pairs that are left out."""


def make_masks(split: Split, built: PositivePairs, rng: np.random.Generator) -> Masks:
    """All five of them, given the pairs that PSP builds of train.

    `SPARED` is the mask of protocol `published`. `RANDOM` leaves out train and, for each user, as many further items as
    `SPARED` does, drawn among those that are neither in train nor held out.
    """
    spared = spare(built.as_pairs(), split, split.valid, split.test)
    injected = spared.only(~_are_in(spared, split, split.clean_train))
    n_injected = np.bincount(injected.users, minlength=split.n_users)
    taken = [split.clean_train, split.valid, split.test]
    return {
        TRAIN: Known.TRAIN.to_mask(split, spared),
        TRAIN_VALID: Known.TRAIN_VALID.to_mask(split, spared),
        SPARED: Known.TRAIN_PAIRS.to_mask(split, spared),
        NOT_SPARED: Known.TRAIN_PAIRS.to_mask(split, built.as_pairs()),
        RANDOM: [split.clean_train, draw_outside(split, n_injected, taken, rng)],
    }


def spare(pairs: Pairs, split: Split, *labels: Pairs) -> Pairs:
    """The pairs without those that are labels; what is in train stays, whatever it is."""
    return pairs.only(~_are_in(pairs, split, *labels) | _are_in(pairs, split, split.train))


def draw_labels(split: Split, rng: np.random.Generator) -> Pairs:
    """Random labels in place of the test's: as many for each user whom train knows, outside train."""
    known = split.test.users[split.test.users < split.n_users]
    return draw_outside(split, np.bincount(known, minlength=split.n_users), [split.train], rng)


def draw_outside(split: Split, counts: Ints, taken: list[Pairs], rng: np.random.Generator) -> Pairs:
    """`counts` different items for each user, or as many as there are, uniform over those that are not taken."""
    sets = ItemSets(split.n_users, split.n_items, *taken)
    n_free = split.n_items - sets.sizes.numpy()
    counts = np.minimum(counts, n_free)
    places = [np.sort(rng.choice(n, size=count, replace=False)) for n, count in zip(n_free, counts, strict=True)]
    users = np.repeat(np.arange(split.n_users), counts)
    items = sets.nth_outside(torch.from_numpy(users), torch.from_numpy(np.concatenate(places).astype(np.int64)))
    return Pairs(users, items.numpy())


def _are_in(pairs: Pairs, split: Split, *parts: Pairs) -> NDArray[np.bool_]:
    sets = ItemSets(split.n_users, split.n_items, *parts)
    found: NDArray[np.bool_] = sets.contains(torch.from_numpy(pairs.users), torch.from_numpy(pairs.items)).numpy()
    return found
