"""Tables that several commands show."""

from __future__ import annotations

from collections.abc import Sequence

from pspns.cli.screen import results, show_table, tell
from pspns.report.comparison import Table
from pspns.report.words import cell, title, verdict


def show_comparison(table: Table, metric: str, cutoffs: Sequence[int]) -> None:
    """Models best first, the test under the protocol's mask, then under mask `train`, and what it means."""
    if results.width < 50 + 45 * len(cutoffs):  # what does not fit stays in result.json and in the report
        cutoffs = cutoffs[:1]
    wanted = [f"{name}@{k}" for k in cutoffs for name in ("recall", "precision", "ndcg")]
    shown = [name for name in wanted if name in table.metrics()]
    if metric not in shown:  # the sentence below speaks of it
        shown.insert(0, metric)
    other = [metric]
    masks = list(table.rows[0].mean_other_masks)
    columns = ["model", "", *(title(name) for name in shown)]
    columns += [f"{title(name)} mask {mask}" for mask in masks for name in other[:1]]
    rows = [
        [
            row.label,
            row.note,
            *(cell(name, row.mean[name], row.spread.get(name)) for name in shown),
            *(cell(name, row.mean_other_masks[mask][name], None) for mask in masks for name in other[:1]),
        ]
        for row in table.ranked(metric)
    ]
    show_table(f"Test, protocol {table.protocol}, in percent", columns, rows, text_columns=2)
    tell(verdict(table, metric))
    tell(f"Data: {table.data}; {table.n_users:,} users have held-out items.")
    if table.n_cold:
        tell(f"{table.n_cold:,} of them are unknown to train: every model offers them what is popular.")
    if table.warning:
        tell(f"Protocol {table.protocol}: {table.warning}.")
    if masks:
        tell("Mask train leaves only train pairs out of the ranking, as most papers do.")
