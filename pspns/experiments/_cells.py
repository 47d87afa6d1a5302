"""Cells of the tables of results, from records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from pspns.experiments import published

DATA = {
    "ml-1m": "MovieLens-1M",
    "epinions": "Epinions",
    "yelp2018-part": "Yelp2018 (part)",
    "pinterest": "Pinterest (part)",
    "gowalla": "Gowalla",
}
MODELS = {"lightgcn": "LightGCN", "mf": "MF"}
PRINTED_IN = {"lightgcn": "overall", "mf": "mf"}
"""Model → the paper's table of all methods with it."""

Record = dict[str, Any]


def max_steps(record: Record) -> int:
    return int(record["settings"]["training"]["max_steps"])


def printed(data: str, model: str, method: str) -> str:
    """What the paper prints: Recall@20 / Precision@20."""
    recall, precision = (
        published.printed(PRINTED_IN[model], data, model, method, metric) for metric in ("recall@20", "precision@20")
    )
    return "–" if recall is None else f"{recall:.2f} / {precision:.2f}"


def limit(record: Record) -> str:
    return " **limit**" if max_steps(record) in record["steps"] else ""


def pair(figures: Record, second: str) -> str:
    return f"{value(figures['recall@20'])} / {100 * figures[second]['mean']:.2f}"


def value(figure: Record) -> str:
    values: Sequence[float] = [100 * value for value in figure["per_seed"]]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"
