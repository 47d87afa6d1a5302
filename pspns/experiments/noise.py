"""How much harm false positives do, and who withstands them: denoisers and recipes with noise added to train.

The share is `--noise`. Under `published`, false pairs that happen to be held out are dropped, so it is trained apart.
"""

from __future__ import annotations

from pspns.experiments._members import Tables, changed, recipe
from pspns.experiments.denoisers import with_its_loss


def members() -> dict[str, Tables]:
    compared: dict[str, Tables] = {
        **{name: recipe(name) for name in ("plain", "paper", "recommended")},
        **{name: changed(recipe("plain"), chosen) for name, chosen in with_its_loss().items() if name != "none"},
    }
    found: dict[str, Tables] = {}
    for name, tables in compared.items():
        # What is judged beside plain training would be the same beside all others.
        strict: Tables = {"run": {"baselines": name == "plain"}}
        found[name] = changed(tables, strict)
        found[f"{name} (published)"] = changed(tables, strict, {"run": {"protocol": "published"}})
    return found
