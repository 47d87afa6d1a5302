"""Rows that repeat, that belong to one id, or that are too few."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import numpy as np

from pspns.data.findings._data import Data, Finding, counted, share, shown
from pspns.data.split import Part
from pspns.recipes import recipe_names, recipe_text


def of_one_id(data: Data) -> Iterator[Finding]:
    for side in data.sides:
        top = int(side.rows.argmax())
        its_share = side.rows[top] / data.n_rows
        is_half, is_tenth = its_share >= 0.5 and len(side.ids) > 2, its_share > 0.1 and len(side.ids) >= 100
        if (is_half or is_tenth) and not side.looks_missing[top]:
            name = f"{side.role} {shown(side.ids.slice(top, 1))}"
            yield Finding(
                "warning" if is_half else "note",
                f"rows of {name} alone: {share(int(side.rows[top]), data.n_rows)}",
                f"If that id stands for many {side.role}s, or for an unknown one, leave its rows out.",
            )


def repeated_rows(data: Data) -> Iterator[Finding]:
    n_times, rest = divmod(data.n_rows, data.n_pairs)
    if n_times > 1 and rest == 0 and all((side.rows == n_times * side.pairs).all() for side in data.sides):
        yield Finding(
            "warning",
            f"users and items have exactly {n_times} rows for each of their pairs",
            "The same rows seem to have been written more than once; a pair counts once all the same.",
        )
    elif (n_repeats := data.n_rows - data.n_pairs) > 0.1 * data.n_rows:
        yield Finding(
            "note",
            f"rows that repeat a pair: {share(n_repeats, data.n_rows)}",
            "A pair counts once, at its earliest time, however often it occurs.",
        )


def too_few_to_train(data: Data) -> Iterator[Finding]:
    train = data.tables[Part.TRAIN]
    n_users, n_items = (int(np.count_nonzero(np.bincount(places))) for places in (train.users, train.items))
    ranks = {name: tomllib.loads(recipe_text(name)).get("positives", {}).get("rank", 0) for name in recipe_names()}
    if too_high := [f"{name} ({rank})" for name, rank in ranks.items() if rank > min(n_users, n_items)]:
        yield Finding(
            "warning",
            f"there are only {counted(n_users, 'user')} and {counted(n_items, 'item')} to train on",
            f"With so few, chance decides which model looks best. The rank of some recipes is higher: "
            f"{', '.join(too_high)}; lower it with --positives.rank.",
        )
