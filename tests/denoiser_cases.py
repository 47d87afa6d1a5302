"""Every denoiser of the folder, with each loss that it allows and with its switches."""

from __future__ import annotations

import dataclasses
from typing import Any

from pspns.components import find_part, part_names

# Short of the defaults, so that a few epochs reach all that a denoiser does.
SHORT = {"drop_rate": 0.3, "ramp_epochs": 1.0, "relabel_share": 0.1, "relabel_epochs": 1.0, "pool": 3, "warm_up": 1}
# Switches that make a denoiser do other things.
WITH_SWITCH = {
    "bod, all alike": ("bod", {"weigh": False}),
    "bod, other rows": ("bod", {"weights_of_other_rows": True, "outer_user_twice": True}),
    "dcf, published": ("dcf", {"relabel": "keep-label", "history": "slot", "mean": "since-reset", "bound_epochs": 3}),
    "dcf, discarding": ("dcf", {"relabel": "discard", "window": 1}),
    "deca, blind": ("deca", {"blind": "always"}),
    "deca, blind at first": ("deca", {"blind": "first-step"}),
    "pld, by interaction": ("pld", {"users": "interaction"}),
    "t-ce, by positives": ("t-ce", {"rank_by": "positive", "ramp_steps": 3}),
}


def part_of(name: str) -> Any:
    """The denoiser with short settings, of which it takes those it has."""
    name, switch = WITH_SWITCH.get(name, (name, {}))
    kind = find_part("denoisers", name)
    fields = [field.name for field in dataclasses.fields(kind)]
    return kind(**{key: value for key, value in SHORT.items() if key in fields} | switch)


def cases(*names: str) -> dict[str, tuple[Any, str]]:
    """Each with every loss that it allows."""
    return {
        f"{name}, {loss}": (part_of(name), loss)
        for name in names
        for loss in getattr(part_of(name), "losses", ()) or part_names("losses")
    }


USUAL = cases(*part_names("denoisers"), "denoisers_for_tests:COMPONENT")
CASES = USUAL | cases(*WITH_SWITCH)
