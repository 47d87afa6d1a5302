"""The settings of the recipes, chosen on validation: as many trials for each rival, test never looked at.

Every rival visits each of nine pairs of learning rate and L2 weight once; whatever else it has to set is drawn at
random from a few values.
"""

from __future__ import annotations

import itertools
from typing import Any

from pspns.experiments._members import Tables, changed, recipe
from pspns.rng import host_stream

LEARNING_RATES = (1e-3, 2e-3, 5e-3)
L2_WEIGHTS = (1e-5, 1e-4, 1e-3)
SPECTRAL_AGREEMENT: Tables = {
    "positives": {"name": "agreement", "times_root_degree": True},
    "weighting": {"name": "log"},
    "start": {"name": "spectral"},
    "negatives": {"name": "uniform"},
}
OTHER_VALUES: dict[str, dict[tuple[str, str], tuple[Any, ...]]] = {
    "plain": {},
    "paper": {
        ("positives", "rank"): (50, 100, 200),
        ("positives", "copies"): (2, 3, 5),
        ("weighting", "sensitivity"): (0.01, 0.1, 1.0),
    },
    "recommended": {
        ("start", "score_spread"): (0.3, 1.0, 3.0),
        ("positives", "rank"): (50, 100),
        ("positives", "copies"): (2, 3),
        ("weighting", "sensitivity"): (0.01, 0.1),
    },
}


def members() -> dict[str, Tables]:
    """Trial → settings; a trial is called after its rival and what was tried."""
    bases = {"plain": recipe("plain"), "paper": recipe("paper"), "recommended": SPECTRAL_AGREEMENT}
    found: dict[str, Tables] = {}
    for rival, base in bases.items():
        rng = host_stream(0, f"trials of {rival}")
        for learning_rate, l2 in itertools.product(LEARNING_RATES, L2_WEIGHTS):
            tried: Tables = {"training": {"learning_rate": learning_rate, "l2": l2}, "run": {"baselines": False}}
            for (section, key), values in OTHER_VALUES[rival].items():
                tried.setdefault(section, {})[key] = values[rng.integers(len(values))]
            found[f"{rival} {len(found) % 9 + 1}"] = changed(base, tried)
    return found
