"""Checks that settings of several samplers need."""

from __future__ import annotations

import math
from typing import Any

from pspns.errors import SettingsError


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


def check_share(part: Any, *names: str) -> None:
    """From 0 to 1, if set at all."""
    for name in names:
        given = getattr(part, name)
        _check(part, name, given is None or 0 <= given <= 1, "from 0 to 1")


def _check(part: Any, name: str, is_good: bool, expected: str) -> None:
    if not is_good:
        raise SettingsError(f"{name} must be {expected}, got {getattr(part, name):g}; change [negatives] {name}")
