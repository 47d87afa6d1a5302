"""What a table means, in sentences anyone can check against it."""

from __future__ import annotations

from pspns.report.comparison import Table

# Cells of a table: accuracy in percent, everything else as it is.
COUNTED = ("mean-popularity",)


def verdict(table: Table, metric: str) -> str:
    """Which model is best by the metric, and whether training step by step paid on these data."""
    ranked = table.ranked(metric)
    best = ranked[0]
    if len(ranked) == 1:
        return f"{best.label} finds {percent(best.mean[metric])} by {title(metric)}; there is nothing beside it to compare."
    trained = [row for row in ranked if row.has_loop]
    plain = [row for row in ranked if not row.has_loop]
    if not trained or not plain:
        return _against(table, metric, ranked[0].label, ranked[1].label)
    text = _against(table, metric, trained[0].label, plain[0].label)
    difference = next(d for d in table.differences(metric, plain[0]) if d.label == trained[0].label)
    if difference.high < 0:
        return f"{text} On these data, the model without a training loop is better."
    if difference.low > 0:
        return f"{text} On these data, the training loop pays."
    return f"{text} On these data, the two cannot be told apart."


def _against(table: Table, metric: str, label: str, reference: str) -> str:
    row = next(row for row in table.rows if row.label == label)
    other = next(row for row in table.rows if row.label == reference)
    difference = next(d for d in table.differences(metric, other) if d.label == label)
    more = "more" if difference.mean >= 0 else "less"
    return (
        f"By {title(metric)}, {label} reaches {percent(row.mean[metric])} and {reference} {percent(other.mean[metric])}: "
        f"{abs(100 * difference.mean):.2f} points {more} (95 % interval over {table.n_users:,} users "
        f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f})."
    )


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


def cell(metric: str, mean: float, spread: float | None) -> str:
    """A figure as a table shows it: in percent with two decimals, or a plain count.

    >>> cell("recall@20", 0.24312, 0.001), cell("mean-popularity@20", 812.3, None)
    ('24.31 ± 0.10', '812')
    """
    if metric.startswith(COUNTED):
        return f"{mean:,.0f}"
    return f"{100 * mean:.2f}" + (f" ± {100 * spread:.2f}" if spread is not None else "")
