"""Positives of data larger than memory: seconds of each stage, and peak memory above that of a process after imports.

    python -m benchmarks.out_of_core --folder /somewhere/with/20/GB

Generates 1,000,000 users × 50,000 items × 100 million pairs, builds from them out of core and checks what was written.
Before that, on a size where both run, out of core and in memory must give the same pairs, copies, flags and weights.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from benchmarks._crowd import Ints, crowd
from benchmarks._peak import in_a_process, measure
from benchmarks._report import RESULTS, Report
from pspns.api import build_positives
from pspns.out_of_core.streamed_build import build_to_folder

# Small enough for both ways, and large enough for several parts, shards and blocks.
SMALL = 60_000, 5_000, 10_000_000
COPIES = 3
# Source and rows spilled, those dealt out, the matrix twice, and twice as many pairs written.
BYTES_A_PAIR = 40


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__.partition(":")[0])
    parser.add_argument("--folder", type=Path, help="where files may lie meanwhile; unset: the system's temporary one")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=100_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", nargs=2, metavar=("DATA", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(lambda: _build(*options.measure))))
        return
    size = options.users, options.items, options.pairs
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pspns-out-of-core-") as folder:
        _check_room(Path(folder), options.pairs)
        report = run(size, tuple(map(min, SMALL, size)), Path(folder))
    report.write(options.out, "out-of-core")


def run(size: tuple[int, ...], small_size: tuple[int, ...], folder: Path) -> Report:
    """The table of one size, after both ways were found equal at a small one."""
    source = folder / "pairs.parquet"
    write_crowd(source, *small_size)
    check_equal(source, folder / "small")
    write_crowd(source, *size)
    found = in_a_process("benchmarks.out_of_core", "--measure", source, folder / "built")
    facts = check_pairs(source, folder / "built" / "pairs.parquet", *size)
    n_users, n_items, n_pairs = size
    report = Report(
        "Out of core",
        f"`pspns build --out-of-core` of {n_users:,} users × {n_items:,} items × {n_pairs:,} generated pairs, rank 50. "
        f"Equal to the build in memory at {' × '.join(f'{n:,}' for n in small_size)}: every pair, copy, flag and "
        f"weight. Of what was written at full size: every pair of the file is there as observed, each user is proposed "
        f"as many items as they have, rows are sorted, agreed pairs have {COPIES} copies and no others.",
        ("what", "figure"),
    )
    for stage, seconds in found["answer"]["seconds"].items():
        report.add(f"{stage}, s", round(seconds, 1))
    report.add("together, s", round(found["seconds"], 1))
    report.add("base memory, MiB", found["base_mib"])
    report.add("peak memory above it, MiB", found["peak_mib"])
    for what, figure in facts.items():
        report.add(what, figure)
    return report


def write_crowd(path: Path, n_users: int, n_items: int, n_pairs: int) -> None:
    """The generated pairs, as they come."""
    schema = pa.schema({"user": pa.int64(), "item": pa.int64()})
    with parquet.ParquetWriter(path, schema) as file:
        for users, items in crowd(n_users, n_items, n_pairs):
            file.write_table(pa.table({"user": users, "item": items}, schema=schema))


def check_equal(source: Path, out: Path) -> None:
    """Out of core and in memory give the same rows."""
    build_to_folder(source, out, copies=COPIES)
    built = build_positives(source, copies=COPIES)
    for name, expected in (("pairs", built.frame()), ("users", built.users())):
        if not pl.read_parquet(out / f"{name}.parquet").equals(expected):
            raise AssertionError(f"{name} built out of core differ from those built in memory; no figure is worth it")


def check_pairs(source: Path, built: Path, n_users: int, n_items: int, n_pairs: int) -> dict[str, Any]:
    """What must hold of the pairs whatever the size; some facts about them."""
    observed, proposed = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    mixed, expected, n_rows, last_key = 0, 0, 0, -1
    for piece in parquet.ParquetFile(built).iter_batches(1 << 20):
        user, item, copies, weight, is_observed, is_global = (column.to_numpy(zero_copy_only=False) for column in piece)
        keys = user * n_items + item
        _require(bool((np.diff(keys, prepend=last_key) > 0).all()), "rows are sorted by user, then item")
        _require(bool((copies == np.where(is_observed & is_global, COPIES, 1)).all()), "copies are of agreed pairs")
        _require(bool((is_observed | is_global).all() and (weight == 1).all()), "each pair has a reason, and weight 1")
        observed += np.bincount(user[is_observed], minlength=n_users)
        proposed += np.bincount(user[is_global], minlength=n_users)
        mixed += _mixed(keys[is_observed])
        n_rows, last_key = n_rows + len(keys), int(keys[-1])
    for piece in parquet.ParquetFile(source).iter_batches(1 << 20):
        expected += _mixed(piece["user"].to_numpy() * n_items + piece["item"].to_numpy())
    _require(int(observed.sum()) == n_pairs and mixed == expected, "the observed pairs are those of the file")
    _require(bool((observed == proposed).all()), "each user is proposed as many items as they have")
    return {"pairs written": n_rows, "bytes written a pair": round(built.stat().st_size / n_rows, 2)}


def _mixed(keys: Ints) -> int:
    """A sum that hardly any other set of keys has: of each, multiplied, shifted and multiplied again."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return int((mixed >> np.uint64(32)).sum())  # 32 bits each, whose sum cannot overflow


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"not true of the pairs built out of core: {what}")


def _build(data: str, out: str) -> dict[str, Any]:
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", file=sys.stderr, flush=True)

    return {"seconds": build_to_folder(data, out, copies=COPIES, say=say).seconds}


def _check_room(folder: Path, n_pairs: int) -> None:
    free, needed = shutil.disk_usage(folder).free, BYTES_A_PAIR * n_pairs
    if free < needed:
        sys.exit(f"{folder} has {free / 1e9:.0f} GB free, and about {needed / 1e9:.0f} GB are needed; choose --folder")


if __name__ == "__main__":
    main()
