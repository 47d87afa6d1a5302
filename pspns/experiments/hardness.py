"""How hard negatives should be: samplers away from their defaults, on observed pairs; validation says which is best."""

from __future__ import annotations

from typing import Any

from pspns.experiments._members import Tables, changed, recipe

TRIED: dict[str, dict[str, Any]] = {
    **{f"dns, n {n}": {"name": "dns", "candidates": n} for n in (2, 4, 8, 16)},
    **{f"mixgcf, n {n}": {"name": "mixgcf", "candidates": n} for n in (4, 8, 16)},
    "dns-m-n, M 5 of N 32": {"name": "dns-m-n", "candidates": 32, "best": 5},
    "dns-m-n, M 10 of N 32": {"name": "dns-m-n", "candidates": 32, "best": 10},
    "dns-m-n, M 20 of N 200": {"name": "dns-m-n", "candidates": 200, "best": 20},
    # What the authors advise for MovieLens-1M.
    "ahns, n 16, α 0.1, β 0.4": {"name": "ahns", "candidates": 16, "alpha": 0.1, "beta": 0.4},
    "irgan, τ 1": {"name": "irgan", "temperature": 1.0},
}


def members() -> dict[str, Tables]:
    plain = changed(recipe("plain"), {"run": {"baselines": False}})
    return {name: changed(plain, {"negatives": negatives}) for name, negatives in TRIED.items()}
