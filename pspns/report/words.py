"""What a table means, in sentences anyone can check against it."""

from __future__ import annotations

from typing import Any

from pspns.evaluation.selection import is_lower_better
from pspns.report.comparison import Row, Table

# Cells of a table: accuracy in percent, everything else as it is.
COUNTED = ("mean-popularity",)


def verdict(table: Table, metric: str) -> str:
    """Which model is best by the metric, and whether training step by step paid on these data."""
    ranked = table.ranked(metric)
    best = ranked[0]
    if len(ranked) == 1:
        return f"{best.label} reaches {percent(best.mean[metric])} by {title(metric)}; there is nothing beside it."
    if table.n_users < 2:
        return f"Only {table.n_users} user has held-out items: too few to compare anything."
    trained = [row for row in ranked if row.has_loop]
    plain = [row for row in ranked if not row.has_loop]
    if not trained or not plain:
        return _against(table, metric, *ranked[:2])
    _, low, high = table.interval(metric, trained[0], plain[0])
    if trained[0].is_unfinished and low <= 0:
        meaning = f"But the best step of {trained[0].label} was its last: train longer before you draw a conclusion"
    elif high < 0:
        meaning = "On these data, the model without a training loop is better"
    elif low > 0:
        meaning = "On these data, the training loop pays"
    else:
        meaning = "On these data, the two cannot be told apart"
    return f"{_against(table, metric, trained[0], plain[0])} {meaning}."


def _against(table: Table, metric: str, row: Row, reference: Row) -> str:
    mean, low, high = table.interval(metric, row, reference)
    return (
        f"By {title(metric)}, {row.label} reaches {percent(row.mean[metric])} and {reference.label} "
        f"{percent(reference.mean[metric])}: {abs(100 * mean):.2f} points {'more' if mean >= 0 else 'less'} "
        f"(95 % interval over {table.n_users:,} users {signed(low)} to {signed(high)})."
    )


def signed(value: float) -> str:
    """A difference in points, with a true minus sign.

    >>> signed(-0.0301), signed(0.5)
    ('−3.01', '+50.00')
    """
    return f"{100 * value:+.2f}".replace("-", "−")


def percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def title(metric: str) -> str:
    """A metric's name for a heading.

    >>> title("hit-rate@20"), title("ndcg@20"), title("map@5")
    ('Hit rate@20', 'NDCG@20', 'MAP@5')
    """
    name, _, cutoff = metric.partition("@")
    shown = name.upper() if name in ("ndcg", "mrr", "map") else name.replace("-", " ").capitalize()
    return f"{shown}@{cutoff}"


def kept(denoiser: dict[str, Any]) -> str:
    """What a denoiser left of the pairs' weight, of a result; nothing where it gave none.

    >>> kept({"name": "dcf", "kept_at_last_step": [{"all": 0.8, "true": 0.85, "false": 0.5}]})
    'In the end, dcf kept 0.85 of the weight of true pairs and 0.50 of that of false ones.'
    """
    # A seed has met no false pair since its last look but one if there are few, and tells of none.
    of_groups = {
        group: [one[group] for one in denoiser["kept_at_last_step"] if group in one]
        for group in ("all", "true", "false")
    }
    means = {group: sum(values) / len(values) for group, values in of_groups.items() if values}
    if not means:
        return ""
    what = f"{means['all']:.2f} of the weight of pairs"
    if {"true", "false"} <= set(means):
        what = f"{means['true']:.2f} of the weight of true pairs and {means['false']:.2f} of that of false ones"
    return f"In the end, {denoiser['name']} kept {what}."


def choice(select_by: str) -> str:
    """What chose a step.

    >>> choice("ndcg@20"), choice("valid-loss")
    ('the highest NDCG@20', 'the lowest valid-loss')
    """
    return f"the lowest {select_by}" if is_lower_better(select_by) else f"the highest {title(select_by)}"


def cell(metric: str, mean: float, spread: float | None) -> str:
    """A figure as a table shows it: in percent with two decimals, or a plain count.

    >>> cell("recall@20", 0.24312, 0.001), cell("mean-popularity@20", 812.3, None)
    ('24.31 ± 0.10', '812')
    """
    if metric.startswith(COUNTED):
        return f"{mean:,.0f}"
    return f"{100 * mean:.2f}" + (f" ± {100 * spread:.2f}" if spread is not None else "")
