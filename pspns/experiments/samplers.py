"""Every negative sampler at its defaults: on observed pairs, and with PSP-NS's pairs and weights.

On observed pairs the test under mask `train`, which every record has beside its own, is what `published` would give.
"""

from __future__ import annotations

from pspns.components import part_names
from pspns.experiments._members import Tables, changed, recipe


def members() -> dict[str, Tables]:
    found: dict[str, Tables] = {}
    for name in part_names("negatives"):
        chosen: Tables = {"negatives": {"name": name}, "run": {"baselines": False}}
        paper = changed(recipe("paper"), chosen)
        found[name] = changed(recipe("plain"), chosen)
        found[f"{name} + PSP"] = paper
        found[f"{name} + PSP (published)"] = changed(paper, {"run": {"protocol": "published"}})
    return found
