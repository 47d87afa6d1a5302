"""LightGCN with uniform negatives on Gowalla, as its authors judged it, beside the figures that they published.

    python -m benchmarks.anchor --data gowalla.npz --device cuda --out benchmarks/results

He et al. 2020: three layers, size 64, batch 2048, normal start of 0.1, the best epoch on the test, train masked. That
is protocol best-on-test: a figure to hold an implementation against, not one to expect of new data. Their code draws
users first, and then one item of each, so that every user counts the same; the weighting equal-users does that to a
loss over pairs. With `--weightings equal-users,none` the usual loss, over pairs that count the same, trains beside it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks._report import Report
from pspns.data.arrays import read_arrays
from pspns.experiments._members import changed, make_settings, recipe
from pspns.run import run_together
from pspns.training.stopping import Evaluation

PUBLISHED = {"recall@20": 0.1824, "ndcg@20": 0.1547}
STEPS_A_LOOK = 10 * 396  # ten epochs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anchor", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a file of pspns.data.arrays.write_arrays")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--max-steps", type=int, default=396_000, help="a thousand epochs")
    parser.add_argument("--patience", type=int, default=10)
    parser.add_argument("--weightings", default="equal-users", help="one or more, comma between them; in one loop")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    chosen = {
        "model": {"name": "lightgcn"},
        "start": {"name": "normal", "spread": 0.1},
        "training": {
            "max_steps": options.max_steps,
            "evaluate_every": STEPS_A_LOOK,
            "patience": options.patience,
            "precision": options.precision,
        },
        "run": {"protocol": "best-on-test", "baselines": False, "device": options.device, "seeds": (0,)},
    }
    weightings = options.weightings.split(",")
    settings = [make_settings(changed(recipe("plain"), chosen, {"weighting": {"name": name}})) for name in weightings]
    began = time.perf_counter()
    done = run_together(read_arrays(options.data), settings, watch=_watch)
    seconds = time.perf_counter() - began
    report = Report(
        f"LightGCN on {options.data.stem}, protocol best-on-test, {options.precision}",
        f"Protocol best-on-test: {done[0].protocol.warning}. The run took {seconds:.0f} s in all.",
        ("weighting", "metric", "published", "found", "difference", "best step", "steps", "seconds to the best step"),
    )
    for weighting, one in zip(weightings, done, strict=True):
        fitted = one.model.fitted
        best_step = fitted.best_steps[0]
        to_best = next(look.seconds for look in fitted.history if look.step == best_step)
        for metric, published in PUBLISHED.items():
            found = one.model.test[0].overall[metric]
            report.add(
                weighting, metric, published, round(found, 4), f"{100 * (found / published - 1):+.2f} %", best_step,
                fitted.steps[0], round(to_best),
            )  # fmt: skip
    report.write(options.out, f"anchor-{options.data.stem}")


def _watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    if evaluation:
        found = " ".join(f"{100 * metrics['recall@20']:.2f}" for metrics in evaluation.metrics.values())
        print(f"step {step:,} ({evaluation.seconds:.0f} s): recall@20 {found}", flush=True)


if __name__ == "__main__":
    main()
