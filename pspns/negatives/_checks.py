"""Checks that settings of several samplers need."""

from __future__ import annotations

import math
from typing import Any

from pspns.errors import SettingsError


def check_least(part: Any, **least: float) -> None:
    """Each of these settings must be finite and at least as large as said."""
    for name, value in least.items():
        given = getattr(part, name)
        if not value <= given < math.inf:
            raise SettingsError(f"{name} must be at least {value:g}, got {given:g}; change [negatives] {name}")


def check_above_zero(part: Any, *names: str) -> None:
    for name in names:
        given = getattr(part, name)
        if not 0 < given < math.inf:
            raise SettingsError(f"{name} must be above 0, got {given:g}; change [negatives] {name}")


def check_share(part: Any, *names: str) -> None:
    """From 0 to 1, if set at all."""
    for name in names:
        given = getattr(part, name)
        if given is not None and not 0 <= given <= 1:
            raise SettingsError(f"{name} must be from 0 to 1, got {given:g}; change [negatives] {name}")
