"""Parts of a split that overlap, or do not know each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pspns.data.findings._data import Data, Finding, counted, share
from pspns.data.split import Part
from pspns.sorted_keys import are_in, distinct


def pairs_in_two_parts(data: Data) -> Iterator[Finding]:
    keys = {part: table.users * len(data.gathered.item_ids) + table.items for part, table in data.tables.items()}
    for earlier, later in combinations(sorted(keys), 2):
        first, second = earlier.name.lower(), later.name.lower()
        n_shared = int(are_in(keys[later], keys[earlier]).sum())
        if n_shared == len(keys[later]) == len(keys[earlier]):
            yield Finding(
                "warning",
                f"{second} holds exactly the pairs of {first}",
                "One file seems to have been written under two names; make the split again.",
            )
        elif n_shared:
            yield Finding(
                "warning",
                f"{second} pairs that are also in {first}: {share(n_shared, len(keys[later]))}",
                f"A pair counts in the earliest part alone, so they are dropped from {second}.",
            )


def unknown_to_train(data: Data) -> Iterator[Finding]:
    users = {part: table.users for part, table in data.tables.items()}
    items = {part: table.items for part, table in data.tables.items()}
    for side, places in zip(data.sides, (users, items), strict=True):
        is_known = np.bincount(places[Part.TRAIN], minlength=len(side.ids)) > 0
        for part, asked in places.items():
            unknown = asked[~is_known[asked]]
            are_most = len(unknown) > len(asked) / 2
            if len(unknown):
                yield Finding(
                    "warning" if are_most else "note",
                    f"{part.name.lower()} pairs whose {side.role} is not in train: "
                    f"{share(len(unknown), len(asked))}, with {counted(len(distinct(unknown)), side.role)}",
                    "Make sure that ids are written in the same way in all files."
                    if are_most
                    else f"Nothing can be learned about such {side.role}s.",
                )


def sizes_of_parts(data: Data) -> Iterator[Finding]:
    n_train = len(data.tables[Part.TRAIN].users)
    for part, table in data.tables.items():
        if len(table.users) > n_train:
            yield Finding(
                "warning",
                f"{part.name.lower()} has more pairs ({len(table.users):,}) than train ({n_train:,})",
                "Make sure that the files have the right names.",
            )
