"""Building PSP pairs: against the naive way, against the best plain way, and against product and selection alone.

    python -m benchmarks.construction

With a folder of data sets in the environment variable PSPNS_DATA those named in `DATA_SETS` are built as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from torch import Tensor

from benchmarks._generated import tasteful_pairs
from benchmarks._pairs import Timed, time_pairs
from pspns.csr import degree_scales, to_torch
from pspns.data.load import load
from pspns.data.split import GivenSplit, Pairs, Split
from pspns.global_svd import GlobalSvd
from pspns.kernels.selection import best_by_number
from pspns.memory import MemoryBudget
from pspns.positives.psp import PspPositives
from pspns.rng import host_stream
from pspns.shapes import Ground, PositivePairs
from pspns.spectral import OVERSAMPLING, POWER_PASSES
from pspns.top_k import max_rows

Triples = NDArray[np.int64]  # [pairs, 3] user, item, copies; sorted

COPIES = 3
ROWS = 256  # of a block in the plain way: the best of 64 to 1,024
DATA_SETS = (("ml-1m", 50, 1.7), ("epinions", 50, 1.7), ("pinterest", 200, 1.3))


@dataclass(frozen=True)
class Task:
    """What is to be built."""

    name: str
    ground: Ground
    rank: int
    target: float  # how many times faster than the plain way

    def build(self) -> Triples:
        """Our way, the SVD included."""
        pairs = self.pairs()
        return np.stack((pairs.users, pairs.items, pairs.copies.astype(np.int64)), axis=1)

    def pairs(self) -> PositivePairs:
        return PspPositives(rank=self.rank, copies=COPIES).build(replace(self.ground, svd=GlobalSvd()))

    def pairs_from_factors(self) -> PositivePairs:
        """The same from an SVD made before."""
        return PspPositives(rank=self.rank, copies=COPIES).build(self.ground)


def run() -> Iterator[Timed]:
    tasks = [Task("epinions-sized", _ground(11_500, 11_700, tasteful_pairs(11_500, 11_700, 230_000)), 50, 1.7)]
    if folder := os.environ.get("PSPNS_DATA"):
        tasks += [_read(Path(folder) / name, rank, target) for name, rank, target in DATA_SETS]
    for task in tasks:
        yield from compare(task)


def compare(task: Task, pairs: int = 7) -> Iterator[Timed]:
    """One line for each reference."""
    what = f"PSP pairs, {task.name}, rank {task.rank}"
    # scikit-learn starts from a matrix of its own: its pairs can be no more like ours than ours from another start.
    another = replace(task, ground=replace(task.ground, data_seed=1))
    alike = shared(task.build(), another.build()) - 0.05
    yield time_pairs(
        what, f"{100 * alike:.0f} % of user, item, copies, as from another start", "naive", task.build,
        lambda: naive(task), lambda one, two: shared(one, two) >= alike, pairs=min(pairs, 3), target=10,
    )  # fmt: skip
    yield time_pairs(
        what, "99.9 % of user, item, copies", "plain", task.build,
        lambda: plain(task), lambda one, two: shared(one, two) >= 0.999, pairs=pairs, target=task.target,
    )  # fmt: skip
    alone = ProductAndSelection(task)
    for which, build in (("from given factors", task.pairs_from_factors), ("with the SVD", task.pairs)):
        yield time_pairs(
            f"{what}, {which}", "the same agreed pairs", "product and selection alone", build,
            alone.choose, alone.agrees, pairs=pairs, target=1 / 1.3,
        )  # fmt: skip


def shared(one: Triples, two: Triples) -> float:
    """The share of triples that both have."""
    highest = np.maximum(one.max(0), two.max(0)) + 1
    keys = [np.ravel_multi_index(tuple(triples.T), tuple(highest)) for triples in (one, two)]
    return len(np.intersect1d(keys[0], keys[1])) / len(one)


def naive(task: Task) -> Triples:
    """scikit-learn's SVD, the whole table of scores, a sort of each row, Python's sets."""
    from sklearn.utils.extmath import randomized_svd  # type: ignore[import-untyped]

    ground, matrix = task.ground, _normalised(task.ground)
    U, S, Vt = randomized_svd(matrix, task.rank, n_oversamples=OVERSAMPLING, n_iter=POWER_PASSES, random_state=0)
    scores = (U * S) @ Vt
    observed: list[set[int]] = [set() for _ in range(ground.n_users)]
    for user, item in zip(ground.train.users.tolist(), ground.train.items.tolist(), strict=True):
        observed[user].add(item)
    triples = []
    for user, own in enumerate(observed):
        proposed = set(np.argsort(-scores[user], kind="stable")[: len(own)].tolist())
        for item in sorted(own | proposed):
            triples.append((user, item, COPIES if item in own and item in proposed else 1))
    return np.array(triples)


def plain(task: Task) -> Triples:
    """Blocks of a float32 product, `torch.topk` as deep as a block's longest list, merging by sorting numbers."""
    ground = task.ground
    users, items = _plain_svd(task)
    degrees = np.bincount(ground.train.users, minlength=ground.n_users)
    order, found = np.argsort(-degrees, kind="stable"), []
    for first in range(0, ground.n_users, ROWS):
        block = order[first : first + ROWS]
        longest = int(degrees[block[0]])
        best = (users[block] @ items.T).topk(longest).indices.numpy()
        is_wanted = np.arange(longest) < degrees[block][:, None]
        found.append((block[:, None] * ground.n_items + best)[is_wanted])
    proposed = np.sort(np.concatenate(found))
    observed = ground.train.users * ground.n_items + ground.train.items
    both = np.sort(np.concatenate((observed, proposed)))
    is_last = np.append(both[1:] != both[:-1], True)
    keys = both[is_last]
    copies = np.where(np.diff(np.flatnonzero(is_last), prepend=-1) == 2, COPIES, 1)
    return np.stack((keys // ground.n_items, keys % ground.n_items, copies), axis=1)


class ProductAndSelection:
    """What no build can do without, the factors of the SVD being given."""

    def __init__(self, task: Task):
        ground = task.ground
        U, S, self._items = ground.svd.factors(ground, task.rank)
        self._users, self._train, self._n_items = U * S, ground.train, ground.n_items
        self._starts = np.searchsorted(ground.train.users, np.arange(ground.n_users + 1))

    def choose(self) -> NDArray[np.int64]:
        chosen, n_rows = np.empty(len(self._train), dtype=np.int64), max_rows(self._users.device)
        for first in range(0, len(self._users), n_rows):
            scores = (self._users[first : first + n_rows] @ self._items.T).numpy()
            best_by_number(scores, self._starts[first : first + len(scores) + 1], chosen)
        return chosen

    def agrees(self, built: PositivePairs, chosen: NDArray[np.int64]) -> bool:
        observed, proposed = (self._train.users * self._n_items + items for items in (self._train.items, chosen))
        agreed = (built.users * self._n_items + built.items)[built.copies == COPIES]
        return np.array_equal(np.intersect1d(observed, proposed), agreed)


def _plain_svd(task: Task) -> tuple[Tensor, Tensor]:
    """U · S and V of the randomized SVD (Halko 2011) as torch offers it, from the start matrix that ours has."""
    normalised = _normalised(task.ground)
    matrix, transposed = to_torch(normalised, "cpu"), to_torch(sparse.csr_array(normalised.T), "cpu")
    start = host_stream(task.ground.data_seed, "svd").standard_normal(
        (task.ground.n_items, min(task.rank + OVERSAMPLING, *normalised.shape))
    )
    Q = matrix @ torch.from_numpy(start).float()
    for _ in range(POWER_PASSES):
        Q = matrix @ _well_conditioned(transposed @ _well_conditioned(Q))
    Q = torch.linalg.qr(Q).Q
    V, S, W = torch.linalg.svd(transposed @ Q, full_matrices=False)
    return (Q @ W.T)[:, : task.rank] * S[: task.rank], V[:, : task.rank].contiguous()


def _well_conditioned(Y: Tensor) -> Tensor:
    """As scikit-learn has it between passes: LU is cheaper than QR, and spans the same."""
    return torch.from_numpy(linalg.lu(Y.numpy(), permute_l=True, overwrite_a=True, check_finite=False)[0])


def _normalised(ground: Ground) -> sparse.csr_array:
    matrix = ground.train.matrix(ground.n_users, ground.n_items)
    user_scale, item_scale = degree_scales(matrix)
    scaled = sparse.diags_array(user_scale) @ matrix @ sparse.diags_array(item_scale)
    return sparse.csr_array(scaled.astype(np.float32))


def _read(folder: Path, rank: int, target: float) -> Task:
    data = load(folder)
    assert isinstance(data, GivenSplit)
    split = Split.from_parts(data.interactions, data.parts, data.source)
    return Task(folder.name, _ground(split.n_users, split.n_items, split.train), rank, target)


def _ground(n_users: int, n_items: int, train: Pairs) -> Ground:
    return Ground(n_users, n_items, train, 0, MemoryBudget(torch.device("cpu")))


if __name__ == "__main__":
    for timed in run():
        print(timed.words(), flush=True)
