"""What helps without looking at held-out labels: the recipe `recommended`, and its parts one by one over `plain`.

All train at the recipe's learning rate and L2 weight, which are also those that the trials chose for `plain`, so that
members differ in the parts alone.
"""

from __future__ import annotations

from pspns.experiments._members import Tables, changed, recipe

PARTS = {"start": "start", "copies": "positives", "weights": "weighting"}
"""What a part is called here → the section that holds it."""


def members() -> dict[str, Tables]:
    recommended = recipe("recommended")
    plain = changed(recipe("plain"), {"training": recommended["training"]})
    alone = {
        f"plain + {name}": changed(plain, {section: recommended[section], "run": {"baselines": False}})
        for name, section in PARTS.items()
    }
    return {"plain": plain, **alone, "recommended": changed(recommended, {"run": {"baselines": False}})}
