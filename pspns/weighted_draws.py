"""Random items outside each user's set, in proportion to weights: exact, and without drawing twice."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pspns.errors import DataError
from pspns.item_sets import RejectedItems
from pspns.rng import ReplicaStream

MOST_WEIGHT = 2**50  # of all items: a float64, which the draws are made from, tells that many apart


class WeightedDraws:
    """Items as stretches of a line, as long as their weights; a user's line has the stretches of their set cut out.

    Weights are rounded to whole numbers, so that places on the line are exact, and the same on every device.
    """

    def __init__(self, rejected: RejectedItems, n_users: int, weights: NDArray[np.float64]):
        """`weights` `[n_items]`, at least 0; an item of weight 0 is never drawn."""
        sets = self._sets = rejected.sets
        self._rejected = rejected
        # A row's number and a place on its line must fit together into 63 bits.
        scale = min(MOST_WEIGHT, 2**62 // (sets.n_users + 1) - len(weights)) / weights.sum()
        whole = np.where(weights > 0, np.maximum(np.floor(weights * scale), 1), 0).astype(np.int64)
        lengths = torch.from_numpy(whole).to(sets.keys.device)
        self._ends = lengths.cumsum(0)  # [n_items] of the items' stretches
        # [entries + 1] how much was cut out before each entry, over all rows
        self._cut_before = torch.cat((lengths.new_zeros(1), lengths[sets.items].cumsum(0)))
        cut_before_row = self._cut_before[sets.starts]  # [n_users + 1]
        self._row_lengths = int(whole.sum()) - cut_before_row.diff()
        self._check_room(n_users)
        # Where on its row's own line each entry was cut out: rising within a row. One search serves all rows.
        rows = torch.repeat_interleave(torch.arange(sets.n_users, device=lengths.device), sets.sizes)
        begins = (self._ends - lengths)[sets.items]
        self._room_of_row = int(whole.sum()) + 1
        self._cuts = rows * self._room_of_row + begins - (self._cut_before[:-1] - cut_before_row[rows])

    def draw(self, users: Tensor, stream: ReplicaStream) -> Tensor:
        """One item for each of `[replicas, rows]` users."""
        rows = self._rejected.rows(users)
        lengths = self._row_lengths[rows]
        place = (stream.fractions(users.shape[1]) * lengths).long().minimum(lengths - 1)  # the product may round up
        n_cuts = torch.searchsorted(self._cuts, rows * self._room_of_row + place, right=True)
        place += self._cut_before[n_cuts] - self._cut_before[self._sets.starts[rows]]
        return torch.searchsorted(self._ends, place, right=True)

    def _check_room(self, n_users: int) -> None:
        # A user has a row in the sets of each replica that has its own.
        full = torch.nonzero((self._row_lengths.view(-1, n_users) == 0).any(0))
        if len(full):
            raise DataError(
                f"{len(full):,} of {n_users:,} users own every item of a weight above 0 (the first is user number "
                f"{int(full[0])}), so no negative can be drawn for them; leave such users out"
            )
