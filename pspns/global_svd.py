"""One SVD of train for all who need it: the builders of positives and the spectral start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from pspns.rng import host_stream
from pspns.spectral import is_exact, truncated_svd

if TYPE_CHECKING:
    from pspns.data.split import Pairs
    from pspns.shapes import Ground

Factors = tuple[Tensor, Tensor, Tensor]
"""U `[users, rank]`, S `[rank]` falling, V `[items, rank]`; see `truncated_svd`."""


class GlobalSvd:
    """The SVD of train, made once at the largest rank any part of a run needs; whoever asks gets its first columns.

    Of an exact SVD these are the same bits at any rank. A randomized one is made of other random numbers at another
    rank, and its last columns are better the more columns follow: the least certain proposals may change a little.
    """

    def __init__(self, at_least: int = 0):
        """`at_least` is the rank that a later part will ask for."""
        self._at_least = at_least
        self._train: Pairs | None = None
        self._made: dict[bool, Factors] = {}  # an exact and a randomized one are kept apart

    def factors(self, ground: Ground, rank: int, *, exact: bool = False) -> Factors:
        """The first `rank` columns, or as many as there are; shared, so not to be written into."""
        self._train = ground.train if self._train is None else self._train
        assert self._train is ground.train, "another train needs a GlobalSvd of its own"
        exact = is_exact((ground.n_users, ground.n_items), exact=exact)
        computed_rank = self.computed_rank(ground, rank, exact=exact)
        if self._rank_made(exact) < computed_rank:
            self._made[exact] = _svd(ground, computed_rank, "svd", exact=exact)
        return _first_columns(self._made[exact], rank)

    def factors_of_another_seed(self, ground: Ground, rank: int) -> Factors:
        """Those of a randomized SVD of the same width from other random numbers; made anew each time."""
        made = _svd(ground, self.computed_rank(ground, rank), "another svd", exact=False)
        return _first_columns(made, rank)

    def computed_rank(self, ground: Ground, rank: int, *, exact: bool = False) -> int:
        """The rank of the SVD whose first columns answer those who ask for `rank`."""
        shape = ground.n_users, ground.n_items
        return max(self._rank_made(is_exact(shape, exact=exact)), min(max(rank, self._at_least), *shape))

    def _rank_made(self, exact: bool) -> int:
        return len(self._made[exact][1]) if exact in self._made else 0


def _svd(ground: Ground, rank: int, stream: str, *, exact: bool) -> Factors:
    matrix = ground.train.matrix(ground.n_users, ground.n_items)
    return truncated_svd(matrix, rank, host_stream(ground.data_seed, stream), ground.device, exact=exact)


def _first_columns(factors: Factors, rank: int) -> Factors:
    U, S, V = factors
    # Row by row in memory, however wide the whole is: another layout gives products other last bits.
    return U[:, :rank].contiguous(), S[:rank].contiguous(), V[:, :rank].contiguous()
