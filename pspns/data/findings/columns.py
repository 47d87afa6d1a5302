"""User and item taken for each other, or from the same column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pspns.data.columns import choose_columns
from pspns.data.findings._data import FEW_ROWS, Data, Finding, share
from pspns.errors import DataError


def user_and_item_are_one(data: Data) -> Iterator[Finding]:
    user_side, item_side = data.sides
    users, items = (pl.DataFrame({"id": side.ids.cast(pl.String)}).with_row_index("place") for side in data.sides)
    shared = users.join(items, on="id", suffix="_of_item")
    same_item = np.full(len(users), -1)
    same_item[shared["place"].to_numpy()] = shared["place_of_item"].to_numpy()
    n_same = sum(int((same_item[table.users] == table.items).sum()) for table in data.gathered.tables)
    if data.n_pairs >= FEW_ROWS and n_same > 0.9 * data.n_pairs:
        yield Finding(
            "warning",
            f"pairs whose user and item are the same id: {share(n_same, data.n_pairs)}",
            f"The user is read from column {user_side.label}, the item from column {item_side.label}; "
            "name the right ones: --columns user=NAME,item=NAME.",
        )


def user_and_item_are_swapped(data: Data) -> Iterator[Finding]:
    try:
        by_name = choose_columns((data.labels["user"], data.labels["item"]), None, "")
    except DataError:  # the names do not tell
        return
    if by_name.user == 1:
        yield Finding(
            "warning",
            f"the user is read from column {data.labels['user']}, the item from column {data.labels['item']}",
            "By their names it is the other way round; if so, swap them in --columns.",
        )
