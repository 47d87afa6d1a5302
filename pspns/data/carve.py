"""A validation part for a published split that comes without one."""

from __future__ import annotations

import dataclasses

import numpy as np

from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError, SettingsError


def carve_validation(given: GivenSplit, rng: np.random.Generator, share: float = 1 / 9) -> GivenSplit:
    """Move a share of the train pairs, chosen at random, to validation; the test stays as published.

    The choice is plain, as is usual in the field: a user or item may lose its last train pair. One ninth
    makes 8 : 1 : 1 of a published 9 : 1.
    """
    if not 0 < share < 1:
        raise SettingsError(f"the share of train to carve out must lie between 0 and 1, got {share:g}")
    if n_given := int((given.parts == Part.VALID).sum()):
        raise DataError(
            f"{given.source} already has a validation part ({n_given:,} pairs); use it, or leave its file out"
        )
    train = np.flatnonzero(given.parts == Part.TRAIN)
    n_valid = round(len(train) * share)
    if not 0 < n_valid < len(train):
        raise DataError(
            f"{given.source} has {len(train):,} train pairs, and {share:.3g} of them rounds to {n_valid:,}; "
            "expected at least one pair for each of train and validation"
        )
    parts = given.parts.copy()
    parts[rng.choice(train, n_valid, replace=False)] = Part.VALID
    source = f"{given.source}, {n_valid:,} train pairs at random as validation"
    return dataclasses.replace(given, parts=parts, source=source)
