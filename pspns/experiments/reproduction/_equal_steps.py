"""Trainings of equal length: copies lengthen an epoch, so that equal epochs are unequal steps."""

from __future__ import annotations

from typing import Any

from pspns.experiments.records import Seen

STEPS = 20_000
Changes = tuple[tuple[str, Any], ...]
FIXED: Changes = (("training.steps", STEPS),)
"""What a cell is changed by so that it trains so long and keeps its last state."""


def steps_words(seen: Seen | None) -> str:
    """As the record has it: a quick look may have taken fewer."""
    return f"{seen.record['settings']['training']['steps'] if seen else STEPS:,} steps"
