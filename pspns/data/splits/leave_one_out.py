"""Leave one out: each user's latest pair is the test, the one before it the validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Interactions
from pspns.data.split import Part
from pspns.data.splits._users import places_within_users
from pspns.errors import DataError, unknown_name

Order = Literal["time", "random", "auto"]

# One pair each for test, validation and train.
_FEWEST_PAIRS = 3


@dataclass(frozen=True, kw_only=True)
class LeaveOneOutSplit:
    """Users with fewer than 3 pairs keep them all in train. Of pairs with equal times, the one whose item has
    the lower number is the earlier.
    """

    by: Order = "auto"
    """What "latest" means: by `time`; `random`: two random pairs; `auto`: by time where there are times, else
    random."""

    def __post_init__(self) -> None:
        if self.by not in get_args(Order):
            raise unknown_name("order (by) of leave-one-out", self.by, get_args(Order))

    def assign(self, interactions: Interactions, rng: np.random.Generator) -> NDArray[np.int8]:
        """The part of each pair."""
        users = interactions.users
        counts = np.bincount(users)
        if counts.max() < _FEWEST_PAIRS:
            raise DataError(
                f"no user has {_FEWEST_PAIRS} pairs, the most is {counts.max()}; leave-one-out holds two out "
                "and keeps one for train; choose another split, such as random"
            )
        places = places_within_users(users, *self._keys(interactions, rng))
        places_from_last = counts[users] - 1 - places
        gives = counts[users] >= _FEWEST_PAIRS
        parts = np.full(len(users), Part.TRAIN, dtype=np.int8)
        parts[gives & (places_from_last == 1)] = Part.VALID
        parts[gives & (places_from_last == 0)] = Part.TEST
        return parts

    def describe(self) -> str:
        match self.by:
            case "time":
                return "leave one out, the latest"
            case "random":
                return "leave one out, at random"
            case "auto":
                return "leave one out, the latest (at random where the data have no times)"

    def _keys(self, interactions: Interactions, rng: np.random.Generator) -> tuple[NDArray[np.generic], ...]:
        if self.by == "random" or (self.by == "auto" and interactions.times is None):
            return (rng.random(len(interactions)),)
        if interactions.times is None:
            raise DataError(
                "leave-one-out by time needs to know when each pair occurred, but the data have no times; "
                "give the column that holds them, or set [split] by to random"
            )
        return interactions.times, interactions.items


COMPONENT = LeaveOneOutSplit
