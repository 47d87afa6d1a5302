"""How far apart runs of one seed lie on a device: `python -m benchmarks.spread --data world.npz --device cuda`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from pspns.components import find_part
from pspns.data.arrays import read_arrays
from pspns.run import run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spread", description=__doc__.partition(":")[0])
    parser.add_argument("--data", type=Path, required=True, help="a file of pspns.data.arrays.write_arrays")
    parser.add_argument("--model", default="mf")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    settings = Settings(
        model=find_part("models", options.model)(),
        training=TrainingSettings(steps=options.steps, evaluate_every=options.steps, precision=options.precision),
        evaluation=EvaluationSettings(k=(20,)),
        run=RunSettings(device=options.device, baselines=False),
    )
    data = read_arrays(options.data)
    tables, recalls = [], []
    for _ in range(options.runs):
        finished = run(data, settings)
        tensors = finished.model.fitted.scorer.tensors().values()
        tables.append(torch.cat([tensor.double().flatten().cpu() for tensor in tensors]))
        recalls.append(100 * finished.model.test[0].overall["recall@20"])
    first, *others = tables
    n_same = sum(torch.equal(table, first) for table in others)
    furthest = max(float((table - first).norm() / first.norm()) for table in others)
    print(f"{options.model}, {options.precision}, {options.steps:,} steps on {finished.device}, {options.runs} runs:")
    print(f"{n_same} of {len(others)} repeats have the bits of the first; furthest off by {furthest:.2g} of its norm")
    print(f"recall@20 on the test from {min(recalls):.4f} to {max(recalls):.4f} %")


if __name__ == "__main__":
    main()
