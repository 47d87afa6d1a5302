"""Noise: random false pairs in train, so that what is learned in spite of them can be measured."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pspns.data.interactions import Ints
from pspns.data.split import Pairs, Split
from pspns.sorted_keys import are_in, distinct


def add_noise(split: Split, share: float, rng: np.random.Generator) -> Split:
    """The split with false pairs in train: for each user that share of their own train pairs.

    Items are uniform over those known to train that the user has not in train, each at most once. Nothing held out is
    looked at, so some of the false pairs may be held-out ones. Every user keeps an item that is in no pair of theirs,
    or no negative could be drawn; pairs that find no room for that reason are counted.
    """
    import torch  # for which a report, which tells of noise in words, must not wait

    from pspns.item_sets import ItemSets

    train, n_users, n_items = split.train, split.n_users, split.n_items
    sizes = np.bincount(train.users, minlength=n_users)
    n_free = n_items - sizes
    wanted = _rounded_shares(sizes, min(share, float(n_items)), rng)  # which is more than anybody has room for
    counts = np.minimum(wanted, np.maximum(n_free - 1, 0))
    users = np.repeat(np.arange(n_users), counts)
    places = torch.from_numpy(_distinct_places(n_free, counts, rng))
    noise = Pairs(users, ItemSets(n_users, n_items, train).nth_outside(torch.from_numpy(users), places).numpy())
    return dataclasses.replace(
        split,
        train=Pairs.sorted_from(np.concatenate((train.users, noise.users)), np.concatenate((train.items, noise.items))),
        noise=noise,
        n_noise_missing=int((wanted - counts).sum()),
        made_by=f"{split.made_by}; {100 * share:.4g} % random false pairs added to train",
    )


def describe_noise(split: Split, share: float) -> dict[str, Any]:
    """What was asked for, what was added, and how much of it happens to be held out."""
    return {
        "share": share,
        "pairs": len(split.noise),
        "shortfall": split.n_noise_missing,
        "held_out": {part: int(split.are_noise(getattr(split, part)).sum()) for part in ("valid", "test")},
    }


def noise_words(facts: dict[str, Any]) -> str:
    """The same in a line."""
    held_out = facts["held_out"]
    text = (
        f"{facts['pairs']:,} random false pairs added to train ({100 * facts['share']:.4g} % of its pairs); of "
        f"them {held_out['valid']:,} happen to be held out for validation, {held_out['test']:,} for the test"
    )
    if facts["shortfall"]:
        text += f"; there was no room for {facts['shortfall']:,} more"
    return text


def _rounded_shares(sizes: Ints, share: float, rng: np.random.Generator) -> Ints:
    """`share · sizes` in whole numbers, each rounded up or down, with the right mean and the right sum."""
    # Systematic rounding: a ruler with a mark at every whole number is laid at random along the sums.
    marks: Ints = np.floor(share * np.cumsum(sizes) + rng.random()).astype(np.int64)
    return np.diff(marks, prepend=0)


def _distinct_places(n_free: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """For each user so many different numbers below `n_free`, rising, all sets of them equally likely."""
    # Whichever are fewer are drawn, those that are taken or those that are left: the next draw is then new at least
    # every other time.
    takes_drawn = counts <= n_free - counts
    n_drawn = np.where(takes_drawn, counts, n_free - counts)
    width = int(n_free.max(initial=0)) + 1
    keys = np.empty(0, np.int64)  # user · width + place, rising
    users = np.arange(len(counts))
    while len(keys) < n_drawn.sum():
        missing = np.repeat(users, n_drawn - np.bincount(keys // width, minlength=len(users)))
        keys = distinct(np.concatenate((keys, missing * width + rng.integers(n_free[missing]))))
    others = np.repeat(users, np.where(takes_drawn, 0, n_free))
    all_places = others * width + _places_within(others)
    left = all_places[~are_in(all_places, keys)]
    taken = np.sort(np.concatenate((keys[takes_drawn[keys // width]], left)))
    return taken % width


def _places_within(owners: Ints) -> Ints:
    """0, 1, 2, … for each run of equal numbers.

    >>> _places_within(np.array([4, 4, 7])).tolist()
    [0, 1, 0]
    """
    counts = np.bincount(owners)
    places: Ints = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    return places
