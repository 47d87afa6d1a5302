"""What may choose the best step: which way it is better, and how it is written."""

from __future__ import annotations

import math

LOSSES = {
    "valid-loss": "Mean BCE of the validation pairs and as many random negatives; lower is better; only to select by.",
    "revised-valid-loss": (
        "The same without the validation pairs of the highest loss, a share of loss_trim; lower is better; only to "
        "select by."
    ),
}
"""Beside metric@k, with their meanings."""


def is_lower_better(metric: str) -> bool:
    """Losses are better low, all else is better high.

    >>> is_lower_better("valid-loss"), is_lower_better("recall@20")
    (True, False)
    """
    return metric in LOSSES


def is_better(metric: str, value: float, than: float) -> bool:
    return value < than if is_lower_better(metric) else value > than


def worst(metric: str) -> float:
    """What any value is better than."""
    return math.inf if is_lower_better(metric) else -math.inf


def figure(metric: str, value: float) -> str:
    """As a screen shows it: in percent with two decimals, losses as they are.

    >>> figure("recall@20", 0.24312), figure("valid-loss", 0.56912)
    ('24.31', '0.5691')
    """
    return f"{value:.4f}" if metric in LOSSES else f"{100 * value:.2f}"
