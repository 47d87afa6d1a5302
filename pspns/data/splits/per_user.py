"""Within each user at random: every user gives about the same shares of their pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pspns.data.interactions import Interactions, Ints
from pspns.data.split import Part
from pspns.data.splits._shares import check_shares, shares_text
from pspns.data.splits._users import places_within_users


@dataclass(frozen=True, kw_only=True)
class PerUserSplit:
    """A user with n pairs gives n · (valid_share + test_share) of them, rounded down or up, never all.

    Shares of a few pairs are rarely whole numbers, and rounding each user alone would leave light users out
    of the test, or hold out too much of them. So a user's remainder is carried to the next user, in the order
    of ids, from a random start: each user's expected count is exact, and the sum over all users is exact up
    to one pair (less where a user would have given their last pair).
    """

    valid_share: float = 0.1
    """Share of each user's pairs held out for validation."""
    test_share: float = 0.1
    """Share of each user's pairs held out for the test."""

    def __post_init__(self) -> None:
        check_shares(self.valid_share, self.test_share)

    def assign(self, interactions: Interactions, rng: np.random.Generator) -> NDArray[np.int8]:
        """The part of each pair."""
        held_out_share = self.valid_share + self.test_share
        valid_of_held_out = self.valid_share / held_out_share if held_out_share > 0 else 0.0
        counts = np.bincount(interactions.users)
        held_out = np.minimum(_carry_remainders(counts, held_out_share, rng), counts - 1)
        n_valid = _carry_remainders(held_out, valid_of_held_out, rng)

        users = interactions.users
        places = places_within_users(users, rng.random(len(interactions)))
        parts = np.full(len(interactions), Part.TRAIN, dtype=np.int8)
        parts[places < held_out[users]] = Part.TEST
        parts[places < n_valid[users]] = Part.VALID
        return parts

    def describe(self) -> str:
        return f"random within each user {shares_text(self.valid_share, self.test_share)}"


def _carry_remainders(counts: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Whole numbers, each counts · share rounded down or up, whose sum is the share of the sum."""
    running = np.concatenate(([0], np.cumsum(counts))) * share
    rounded = np.floor(running + rng.random()).astype(np.int64)
    return rounded[1:] - rounded[:-1]


COMPONENT = PerUserSplit
