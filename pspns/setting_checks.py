"""Checks that settings of several samplers and denoisers need."""

from __future__ import annotations

import math
from typing import Any, get_args

from pspns.errors import SettingsError

# A part from elsewhere may be either.
SECTIONS = {"pspns.negatives": "negatives", "pspns.denoising": "denoiser"}


def check_choice(part: Any, name: str, choices: Any) -> None:
    """One of the values of a `Literal`."""
    _check(part, name, getattr(part, name) in get_args(choices), " or ".join(get_args(choices)))


def check_finite(part: Any, *names: str) -> None:
    for name in names:
        _check(part, name, math.isfinite(getattr(part, name)), "a finite number")


def check_least(part: Any, **least: float) -> None:
    """Each of these settings must be finite and at least as large as said."""
    check_finite(part, *least)
    for name, value in least.items():
        _check(part, name, getattr(part, name) >= value, f"at least {value:g}")


def check_above_zero(part: Any, *names: str) -> None:
    check_finite(part, *names)
    for name in names:
        _check(part, name, getattr(part, name) > 0, "above 0")


def check_drop_rate(part: Any) -> None:
    """Of a part that leaves out more and more: its `drop_rate`, `ramp_epochs` and `ramp_steps`."""
    _check(part, "drop_rate", 0 <= part.drop_rate < 1, "at least 0 and below 1")
    check_above_zero(part, "ramp_epochs")
    _check(part, "ramp_steps", part.ramp_steps is None or part.ramp_steps >= 1, "at least 1")


def check_below_one(part: Any, *names: str) -> None:
    for name in names:
        _check(part, name, getattr(part, name) < 1, "below 1")


def check_share(part: Any, *names: str) -> None:
    """From 0 to 1, if set at all."""
    for name in names:
        given = getattr(part, name)
        _check(part, name, given is None or 0 <= given <= 1, "from 0 to 1")


def _check(part: Any, name: str, is_good: bool, expected: str) -> None:
    if not is_good:
        given = getattr(part, name)
        # More digits than :g has, which calls 1.0000001 a 1.
        value = f"{given:.12g}" if isinstance(given, int | float) else f"'{given}'"
        section = SECTIONS.get(type(part).__module__.rpartition(".")[0])
        advice = f"; change [{section}] {name}" if section else ""
        raise SettingsError(f"{name} must be {expected}, got {value}{advice}")
