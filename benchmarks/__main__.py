"""`make bench`: run every benchmark and write what came out as Markdown and JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy
import torch

from benchmarks import negatives, ranking, training
from benchmarks._world import movielens_sized

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    split, world = movielens_sized()
    print(f"{split.n_users:,} users, {split.n_items:,} items, {len(split.train):,} train pairs (generated)")
    lines = ["| what | same answer | reference | ours, s | reference, s | times faster |", "|---|---|---|---|---|---|"]
    print("\n".join(lines))
    found = []
    for benchmark in (negatives, ranking, training):
        timed = benchmark.run(split, world)
        found.append({**dataclasses.asdict(timed), "ratio": timed.ratio})
        lines.append(
            f"| {timed.what} | {timed.same} | {timed.reference} | {timed.ours_seconds:.3f} | "
            f"{timed.reference_seconds:.3f} | {timed.ratio:.2f} |"
        )
        print(lines[-1], flush=True)
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "torch": torch.__version__,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cpu.json").write_text(json.dumps({"machine": machine, "results": found}, indent=2) + "\n")
    heading = ", ".join(f"{name} {value}" for name, value in machine.items())
    (RESULTS / "cpu.md").write_text(f"# `make bench`\n\n{heading}\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
