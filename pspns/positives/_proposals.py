"""What the global pattern proposes: for each user the items that a low-rank reconstruction of train scores highest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.data.interactions import Ints
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.global_svd import Factors
from pspns.positives._merge import n_common
from pspns.search_space import Choices, Space
from pspns.shapes import Ground, PositivePairs
from pspns.spectral import is_exact
from pspns.top_k import MIN_ROWS, best_items, max_rows

Neighbours = Literal["degree", "fixed", "share"]


@dataclass(frozen=True, kw_only=True)
class GlobalPattern:
    """Settings of every builder that asks the global pattern (equations 1 to 3 of the paper)."""

    rank: int = 50
    """Singular values kept, q in the paper."""
    neighbours: Neighbours = "degree"
    """How many items are proposed to a user: as many as they have, a fixed number, or a share of what they have."""
    neighbour_count: int = 20
    """The number for neighbours = fixed."""
    neighbour_share: float = 0.2
    """The share for neighbours = share, rounded up."""
    times_root_degree: bool = False
    """Whether items are ranked by the reconstruction times √(item degree), which undoes half of the normalisation."""
    exact: bool = False
    """Whether the SVD is exact whatever the size; up to 1,000 users or items it always is."""

    search: ClassVar[Space] = {"rank": Choices((50, 100, 200))}

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise SettingsError(f"rank must be at least 1, got {self.rank}; raise [positives] rank")
        if self.neighbours not in get_args(Neighbours):
            raise SettingsError(f"neighbours must be one of {', '.join(get_args(Neighbours))}, got '{self.neighbours}'")
        if self.neighbour_count < 1:
            raise SettingsError(f"neighbour_count must be at least 1, got {self.neighbour_count}")
        if not 0 < self.neighbour_share <= 1:
            raise SettingsError(f"neighbour_share must be above 0 and at most 1, got {self.neighbour_share:g}")

    def propose(self, ground: Ground) -> Pairs:
        """The proposed pairs; ties go to the lower item number."""
        limit = min(ground.n_users, ground.n_items)
        if self.rank > limit:
            raise SettingsError(
                f"rank must be at most min(n_users, n_items) = {limit}, got {self.rank}; lower [positives] rank"
            )
        if self.exact:  # the Gram matrix of the smaller side, its eigenvectors, and LAPACK's workspace, in float64
            ground.memory.check(4 * 8 * limit**2, f"an exact SVD with {limit:,} users or items")
        return self._best_of(ground.svd.factors(ground, self.rank, exact=self.exact), ground)

    def seed_agreement(self, ground: Ground, built: PositivePairs | None = None) -> float:
        """The share of proposed pairs that another start of the randomized SVD proposes too; 1 where it is exact.

        What was `built` from the proposals saves making them again, unless some were dropped.
        """
        if is_exact((ground.n_users, ground.n_items), exact=self.exact):
            return 1.0
        if built is not None and np.count_nonzero(built.is_global) == self._counts(ground).sum():
            one = Pairs(built.users[built.is_global], built.items[built.is_global])
        else:
            one = self.propose(ground)
        another = self._best_of(ground.svd.factors_of_another_seed(ground, self.rank), ground)
        return float(n_common(ground.n_users, one, another).sum() / len(one))

    def _best_of(self, factors: Factors, ground: Ground) -> Pairs:
        U, S, V = factors
        if self.times_root_degree:
            degrees = np.bincount(ground.train.items, minlength=ground.n_items)
            V = V * torch.from_numpy(np.sqrt(degrees)).to(V)[:, None]
        return _top_pairs(U * S, V, self._counts(ground), ground)

    def _counts(self, ground: Ground) -> Ints:
        degrees = np.bincount(ground.train.users, minlength=ground.n_users)
        match self.neighbours:
            case "degree":
                counts = degrees
            case "fixed":
                counts = np.full(ground.n_users, self.neighbour_count)
            case "share":
                # A hair less, or rounding makes 0.07 · 100 more than 7, and so 8.
                counts = np.ceil(degrees * self.neighbour_share * (1 - 1e-12))
        return np.minimum(counts, ground.n_items).astype(np.int64)


def _top_pairs(users: Tensor, items: Tensor, counts: Ints, ground: Ground) -> Pairs:
    """The `counts` best items of each user, in blocks of users: never a table of users × items."""
    n_rows = ground.memory.rows(16 * len(items), MIN_ROWS, max_rows(users.device), f"proposing {len(items):,} items")
    find = _found_by_counting if users.device.type == "cpu" else _found_by_sorting
    return find(users, items, counts, n_rows)


def _found_by_counting(users: Tensor, items: Tensor, counts: Ints, n_rows: int) -> Pairs:
    from pspns.kernels.selection import best_by_number  # waits for numba, which a GPU does not need

    starts = np.concatenate(([0], np.cumsum(counts)))
    chosen = np.empty(starts[-1], dtype=np.int64)
    for first in range(0, len(users), n_rows):
        scores = _scores(users[first : first + n_rows], items).numpy()
        best_by_number(scores, starts[first : first + len(scores) + 1], chosen)
    return Pairs(np.repeat(np.arange(len(users)), counts), chosen)


def _found_by_sorting(users: Tensor, items: Tensor, counts: Ints, n_rows: int) -> Pairs:
    # Users with about as many proposals share a block, since the longest list sets the cost of all.
    order = torch.from_numpy(np.argsort(-counts, kind="stable")).to(users.device)
    lengths = torch.from_numpy(counts).to(users.device)
    found: list[Tensor] = []  # user · n_items + item
    for block in torch.split(order, n_rows):
        longest = int(lengths[block[0]])
        if longest == 0:
            break
        best, _ = best_items(_scores(users[block], items), longest)
        wanted = torch.arange(longest, device=users.device) < lengths[block][:, None]
        found.append((block[:, None] * len(items) + best)[wanted])
    keys = torch.cat(found).sort().values if found else order[:0]
    return Pairs(np.repeat(np.arange(len(users)), counts), (keys % len(items)).cpu().numpy())


def _scores(users: Tensor, items: Tensor) -> Tensor:
    filled = F.pad(users, (0, 0, 0, max(0, MIN_ROWS - len(users))))
    return (filled @ items.T)[: len(users)]
