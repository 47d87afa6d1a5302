"""A CSV of 20 million rows to numbered, distinct pairs and their matrix, against polars: reading alone, and all of it.

python -m benchmarks.loading --rows 2000000
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse

from benchmarks._pairs import Timed, time_pairs
from benchmarks._peak import in_a_process, measure
from pspns.data.interactions import Floats, Ids, Interactions
from pspns.data.load import load
from pspns.data.split import Pairs

_REPEATED = 0.05  # share of rows that repeat the pair of another

# As in MovieLens-20M: so many rows for each user, items in all, and numbers up to five times as high.
_ROWS_PER_USER = 145
_N_ITEMS = 27_000


@dataclass(frozen=True)
class Loaded:
    """What both sides make of the file."""

    user_ids: Ids
    item_ids: Ids
    times: Floats  # [pairs] the earliest
    matrix: sparse.csr_array  # users × items

    def equals(self, other: Loaded) -> bool:
        """The same to the last bit."""
        return all(
            np.array_equal(one, two)
            for one, two in (
                (self.user_ids, other.user_ids),
                (self.item_ids, other.item_ids),
                (self.times, other.times),
                (self.matrix.indptr, other.matrix.indptr),
                (self.matrix.indices, other.matrix.indices),
                (self.matrix.data, other.matrix.data),
            )
        )


def run(n_rows: int = 20_000_000, pairs: int = 3) -> list[Timed]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ratings.csv")
        write_ratings(path, n_rows)
        peak = in_a_process("benchmarks.loading", "--peak-of", path)["peak_mib"]
        what = f"load {n_rows:,} rows (peak memory above the start: {peak:,.0f} MiB)"
        whole = time_pairs(
            what, "ids, earliest times and matrix, all bits", "polars: read, number, merge; scipy CSR",
            lambda: with_pspns(path), lambda: with_polars(path), Loaded.equals, pairs,
        )  # fmt: skip
        # A target of a quarter: at most four times as long, for much more than reading.
        reading = time_pairs(
            what, "ids alone: the reference does no more", "polars: read_csv alone",
            lambda: with_pspns(path), lambda: pl.read_csv(path), _have_the_same_ids, pairs, target=1 / 4,
        )  # fmt: skip
    return [reading, whole]


def write_ratings(path: Path, n_rows: int) -> None:
    """Columns user, item, rating, timestamp, in no order; a few users and items have most of the rows."""
    rng = np.random.default_rng(0)
    n_users = n_rows // _ROWS_PER_USER + 1
    users = rng.permutation(n_users)[(n_users * rng.random(n_rows) ** 2).astype(np.int64)] + 1
    items = rng.permutation(5 * _N_ITEMS)[(_N_ITEMS * rng.random(n_rows) ** 3).astype(np.int64)] + 1
    repeats, repeated = rng.integers(0, n_rows, (2, int(_REPEATED * n_rows)))
    users[repeats], items[repeats] = users[repeated], items[repeated]
    ratings = rng.integers(1, 11, n_rows) / 2
    times = rng.integers(789_652_009, 1_427_784_002, n_rows)
    pl.DataFrame({"user": users, "item": items, "rating": ratings, "timestamp": times}).write_csv(path)


def with_pspns(path: Path) -> Loaded:
    data = load(path)
    assert isinstance(data, Interactions)
    assert data.times is not None
    matrix = Pairs(data.users, data.items).matrix(len(data.user_ids), len(data.item_ids))
    return Loaded(data.user_ids, data.item_ids, data.times, matrix)


def with_polars(path: Path) -> Loaded:
    """The same in a few lines, as one would write them by hand: nothing is checked."""
    frame = pl.read_csv(path)
    pairs = frame.group_by("user", "item").agg(pl.col("timestamp").min()).sort("user", "item")
    user_ids, item_ids = (pairs[column].unique().sort().to_numpy() for column in ("user", "item"))
    users, items = np.searchsorted(user_ids, pairs["user"]), np.searchsorted(item_ids, pairs["item"])
    ones = np.ones(len(pairs), np.float32)
    matrix = sparse.csr_array((ones, (users, items)), shape=(len(user_ids), len(item_ids)))
    return Loaded(user_ids, item_ids, pairs["timestamp"].cast(pl.Float64).to_numpy(), matrix)


def _have_the_same_ids(loaded: Loaded, frame: pl.DataFrame) -> bool:
    ids = (frame[column].unique().sort().to_numpy() for column in ("user", "item"))
    return all(np.array_equal(one, two) for one, two in zip((loaded.user_ids, loaded.item_ids), ids, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--pairs", type=int, default=3, help="how often each side is timed")
    parser.add_argument("--peak-of", type=Path, help="only load this file, and print the memory that it took, as JSON")
    given = parser.parse_args(arguments)
    if given.peak_of is not None:
        print(json.dumps(measure(lambda: with_pspns(given.peak_of).matrix.nnz)))
        return
    for timed in run(given.rows, given.pairs):
        print(
            f"{timed.what}: {timed.ours_seconds:.2f} s; {timed.reference}: {timed.reference_seconds:.2f} s; ours takes "
            f"{1 / timed.ratio:.2f} times as long (medians of {timed.pairs} pairs; same: {timed.same})"
        )


if __name__ == "__main__":
    main()
