"""Records of cells with hits drawn by chance in place of trained ones: what tables show is then known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np

from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Record, Records
from pspns.experiments.user_hits import pack
from pspns.rng import host_stream

N_USERS, N_INACTIVE, N_SEEDS = 40, 10, 3
TERMS = Terms(seeds=N_SEEDS, changes=(("evaluation.inactive", N_INACTIVE),))
MASKS = {"strict": "train+valid", "published": "train+pairs"}
BASELINES = ("popular", "svd", "ease")
METRICS = {"recall@20": 20, "precision@20": 20, "recall@30": 30, "precision@30": 30}
HELD_OUT = 1 + np.arange(N_USERS) % 5
"""Of each user; the users are in the order of their activity."""


def write_forged(records: Records, cell: Cell, **options: Any) -> Record:
    record = forged(cell, **options)
    records.write(cell.name, record)
    return record


def forged(cell: Cell, *, terms: Terms = TERMS, chance: float = 0.3, limit: bool = False) -> Record:
    """Each held-out item is found with this chance, under mask `train` a little less often."""
    settings = cell.settings(terms, cell.data)
    n_seeds = len(settings.run.seeds)
    model = _judged(cell.name, n_seeds, chance)
    tested = {name: _judged(f"{cell.name} {name}", 1, chance) for name in BASELINES if settings.run.baselines}
    return {
        "cell": {"method": cell.method, "changes": dict(cell.changes), "trained_with": [cell.name]},
        "protocol": {"name": cell.protocol, "mask_test": MASKS[cell.protocol]},
        "model": cell.model,
        "data": {"source": cell.data, "fingerprint": f"of {cell.data}", "users": N_USERS},
        "evaluated": {"test": {"users": N_USERS}},
        "seeds": list(range(n_seeds)),
        **_figures(model),
        "steps": [terms.max_steps if limit else 700] * n_seeds,
        "groups": _groups(model["own"]),
        "baselines": {name: {**_figures(one), "steps": []} for name, one in tested.items()},
        "settings": settings.as_dict(),
        "users": {
            "held_out": pack(HELD_OUT),
            **_hits(model),
            "baselines": {name: _hits(one) for name, one in tested.items()},
        },
    }


def forged_hits(cell: Cell, *, mask: str = "own", n_seeds: int = N_SEEDS, chance: float = 0.3) -> np.ndarray:
    """What was drawn: `[seeds, users]` hits among 20."""
    hits: np.ndarray = _judged(cell.name, n_seeds, chance)[mask][20]
    return hits


def _judged(name: str, n_seeds: int, chance: float) -> dict[str, dict[int, np.ndarray]]:
    """Mask of the test, or validation → list length → [seeds, users] hits."""
    rng = host_stream(0, name)
    found = {}
    for mask, factor in (("own", 1.0), ("train", 0.8), ("valid", 0.9)):
        at_20 = rng.binomial(HELD_OUT, factor * chance, size=(n_seeds, N_USERS))
        found[mask] = {20: at_20, 30: at_20 + rng.binomial(HELD_OUT - at_20, 0.2)}
    return found


def _per_user(hits: dict[int, np.ndarray], metric: str) -> np.ndarray:
    k = METRICS[metric]
    return hits[k] / (HELD_OUT if metric.startswith("recall") else k)


def _summary(hits: dict[int, np.ndarray]) -> Record:
    found = {}
    for metric in METRICS:
        per_seed = _per_user(hits, metric).mean(axis=1)
        found[metric] = {"mean": float(per_seed.mean()), "per_seed": per_seed.tolist()}
    return found


def _figures(judged: dict[str, dict[int, np.ndarray]]) -> Record:
    return {
        "valid": _summary(judged["valid"]),
        "test": _summary(judged["own"]),
        "test_other_masks": {"train": _summary(judged["train"])},
    }


def _hits(judged: dict[str, dict[int, np.ndarray]]) -> Record:
    packed = {mask: pack(hits[20].sum(axis=0)) for mask, hits in judged.items()}
    return {"hits": packed["own"], "hits_other_masks": {"train": packed["train"]}}


def _groups(hits: dict[int, np.ndarray]) -> Record:
    order = np.arange(N_USERS)
    members = {f"least_active_{N_INACTIVE}": order < N_INACTIVE}
    members |= {f"decile_{number + 1}": order * 10 // N_USERS == number for number in range(10)}
    return {
        name: {
            "users": int(inside.sum()),
            "mean_train_pairs": float(order[inside].mean()),
            "test": {metric: float(_per_user(hits, metric)[:, inside].mean()) for metric in METRICS},
        }
        for name, inside in members.items()
    }
