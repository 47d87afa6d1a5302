"""`pspns evaluate`: a trained model judged again, at other list lengths and by user group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pspns.api import evaluate, open_model
from pspns.cli.screen import show_table, tell
from pspns.errors import SettingsError
from pspns.options import command_line, resolve
from pspns.report.words import cell, title


def evaluate_and_show(folder: Path, k: str | None, *, as_json: bool) -> None:
    """Every held-out part under its masks, and the test by activity of the users; without `k`, at the run's own."""
    asked = None if k is None else resolve(command_line({"k": k})).evaluation.k
    found = evaluate(open_model(folder), asked)
    cutoffs = found["settings"]["evaluation"]["k"]
    if not found["test"]:
        raise SettingsError(f"{folder} has no test part (it was trained on everything), so there is nothing to judge")
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    metrics = [name for name in found["test"] if int(name.partition("@")[2]) in cutoffs]
    parts: dict[str, dict[str, Any]] = {
        "test": found["test"],
        **{f"test, mask {mask}": figures for mask, figures in found["test_other_masks"].items()},
        "validation": found["valid"],
    }
    n_values = len(next(iter(found["test"].values()))["per_seed"])
    show_table(
        f"{found['model']}, protocol {found['protocol']['name']}, mean over {n_values} seed(s), in percent",
        ["metric", *(part for part, figures in parts.items() if figures)],
        [[title(name), *(_mean(name, figures) for figures in parts.values() if figures)] for name in metrics],
    )
    shown = [f"{name}@{k}" for k in cutoffs for name in ("recall", "ndcg")]
    show_table(
        "Test by activity: decile 1 has the users with the fewest train pairs",
        ["users", "how many", "mean train pairs", *(title(name) for name in shown)],
        [
            [
                name.replace("_", " "),
                f"{group['users']:,}",
                f"{group['mean_train_pairs']:.1f}",
                *(cell(metric, group["test"][metric], None) if group["test"] else "–" for metric in shown),
            ]
            for name, group in found["groups"].items()
        ],
    )
    if found["protocol"]["warning"]:
        tell(f"Protocol {found['protocol']['name']}: {found['protocol']['warning']}.")


def _mean(metric: str, figures: dict[str, Any]) -> str:
    return cell(metric, figures[metric]["mean"], None) if metric in figures else "–"
