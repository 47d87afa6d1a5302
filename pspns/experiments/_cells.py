"""Cells of the tables of results, from records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from pspns.experiments.published import PAPER

DATA = {
    "ml-1m": "MovieLens-1M",
    "epinions": "Epinions",
    "yelp2018-part": "Yelp2018 (part)",
    "pinterest": "Pinterest (part)",
    "gowalla": "Gowalla",
}
MODELS = {"lightgcn": "LightGCN", "mf": "MF"}

Record = dict[str, Any]


def max_steps(record: Record) -> int:
    return int(record["settings"]["training"]["max_steps"])


def printed(data: str, model: str, method: str) -> str:
    """What the paper prints."""
    figures = PAPER[data, model].get(method)
    return f"{figures[0]:.2f} / {figures[1]:.2f}" if figures else "–"


def limit(record: Record) -> str:
    return " **limit**" if max_steps(record) in record["steps"] else ""


def pair(figures: Record, second: str) -> str:
    return f"{value(figures['recall@20'])} / {100 * figures[second]['mean']:.2f}"


def value(figure: Record) -> str:
    values: Sequence[float] = [100 * value for value in figure["per_seed"]]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"
