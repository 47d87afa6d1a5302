"""Ratings that tell nothing, or are something else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pspns.data.findings._data import Data, Finding, share


def odd_ratings(data: Data) -> Iterator[Finding]:
    tables = [table.ratings for table in data.gathered.tables if table.ratings is not None]
    if not tables:
        return
    values, places = np.unique(np.concatenate([values for values, _ in tables]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([counts for _, counts in tables])).astype(np.int64)
    n_rows, least, most = int(counts.sum()), values[0], values[-1]
    middle = values[np.searchsorted(np.cumsum(counts), n_rows / 2)]
    is_whole = bool((values % 1 == 0).all())
    column = f"column {data.labels['rating']}"
    if least == most:
        yield Finding(
            "note" if least == 1 else "warning",
            f"every rating in {column} is {least:g}",
            "They tell nothing; a min_rating would keep every row, or none.",
        )
    elif middle > 1e8:
        yield Finding(
            "warning",
            f"ratings in {column} look like times: half of them are above {middle:.15g}",
            "If they are, name the right columns: --columns user=NAME,item=NAME,time=NAME,rating=",
        )
    elif is_whole and len(values) > max(1000, n_rows / 2):
        yield Finding(
            "warning",
            f"ratings in {column} look like ids: {len(values):,} different whole numbers in {n_rows:,} rows",
            "If they are, name the right columns: --columns user=NAME,item=NAME,rating=",
        )
    elif data.min_rating is not None:
        return
    elif least <= 0 and values[1] >= 1:
        yield Finding(
            "warning",
            f"rows rated {least:g}, where all others are rated {values[1]:g}"
            f"{f' to {most:g}' if len(values) > 2 else ''}: {share(int(counts[0]), n_rows)}",
            f"If {least:g} means 'not rated', 'not liked' or 'not seen', leave them out: --min-rating {values[1]:g}.",
        )
    elif most >= max(50, 20 * middle):
        yield Finding(
            "note",
            f"ratings in {column} look like counts: half of them are at most {middle:g}, the highest is {most:g}",
            "A row is one interaction whatever it counts; --min-rating leaves low counts out.",
        )
    elif n_low := int(counts[values < (least + most) / 2].sum()):
        yield Finding(
            "note",
            f"rows rated below {(least + most) / 2:g}, the middle of {least:g} to {most:g}: {share(n_low, n_rows)}",
            "They are interactions like all others; --min-rating leaves low ones out.",
        )
