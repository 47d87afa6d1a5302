"""Every denoiser at its defaults on observed pairs, beside plain training and controls.

On observed pairs the test under mask `train`, which every record has beside its own, is what `published` would give.
"""

from __future__ import annotations

from typing import Any

from pspns.components import find_part, part_names
from pspns.experiments._members import Tables, changed, recipe

BCE: Tables = {"training": {"loss": "bce"}}

# What tells apart what a denoiser does from what comes with it.
CONTROLS: dict[str, Tables] = {
    "none, bce": {"denoiser": {"name": "none"}, **BCE},
    "none, bce, revised-valid-loss": {
        "denoiser": {"name": "none"},
        "evaluation": {"select_by": "revised-valid-loss"},
        **BCE,
    },
    "deca, C₁ 1000, C₂ 10": {"denoiser": {"name": "deca", "c1": 1000.0, "c2": 10.0}, **BCE},
    "t-ce, by positives": {"denoiser": {"name": "t-ce", "rank_by": "positive"}},
    "bod, weights 1": {"denoiser": {"name": "bod", "weigh": False}},
    "pld, users of interactions": {"denoiser": {"name": "pld", "users": "interaction"}},
}


def members() -> dict[str, Tables]:
    plain = changed(recipe("plain"), {"run": {"baselines": False}})
    return {name: changed(plain, chosen) for name, chosen in (with_its_loss() | CONTROLS).items()}


def with_its_loss() -> dict[str, Tables]:
    """Each denoiser, with bpr where it can."""
    found: dict[str, Tables] = {}
    for name in part_names("denoisers"):
        losses: tuple[Any, ...] = getattr(find_part("denoisers", name), "losses", ())
        found[name] = {"denoiser": {"name": name}, **({} if not losses or "bpr" in losses else BCE)}
    return found
