"""`pspns compare`: runs side by side, with intervals and tests over users."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pspns.cli.screen import show_table, tell
from pspns.cli.tables import show_comparison
from pspns.report.comparison import Table, tables_of
from pspns.report.words import signed


def compare_and_show(folders: Sequence[Path], metric: str, *, as_json: bool) -> None:
    """One table for each data set, share of noise and protocol among the runs."""
    tables = tables_of(folders)
    if as_json:
        print(json.dumps([_plain(table, metric) for table in tables], indent=2, ensure_ascii=False))
        return
    if len(tables) > 1:
        shares = [f"{share:g}" for share in sorted({table.noise for table in tables})]
        why = f"noise ({', '.join(shares)})" if len(shares) > 1 else "data or protocol"
        tell(f"These runs differ in {why} and cannot be compared; here are {len(tables)} tables.")
    for table in tables:
        cutoff = int(metric.partition("@")[2]) if metric.partition("@")[2].isdigit() else 20
        best = table.ranked(metric)[0]
        show_comparison(table, metric, (cutoff,))
        if len(table.rows) > 1:
            show_table(
                f"{metric} against {best.label}, in points, user by user",
                ["model", "difference", "95 % interval", "p (Holm)"],
                [
                    [
                        found.label,
                        signed(found.mean),
                        f"{signed(found.low)} to {signed(found.high)}",
                        f"{found.p_value:.2g}",
                    ]
                    for found in table.differences(metric, best)
                ],
            )


def _plain(table: Table, metric: str) -> dict[str, Any]:
    best = table.ranked(metric)[0]
    return {
        "protocol": table.protocol,
        "warning": table.warning,
        "data": table.data,
        "noise": table.noise,
        "users": table.n_users,
        "rows": [
            {"label": row.label, "note": row.note, "test": row.mean, "spread": row.spread}
            for row in table.ranked(metric)
        ],
        "metric": metric,
        "reference": best.label,
        "differences": [dataclasses.asdict(found) for found in table.differences(metric, best)],
    }
