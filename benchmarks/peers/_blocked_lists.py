"""Lists by a blocked product of torch: what people put before a library that only computes metrics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers._given import Given, K

BLOCK = 512


def blocked_lists(given: Given) -> tuple[NDArray[np.int64], Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    """The test's users, and what makes their lists: items and scores `[users, K]`, best first."""
    users = np.unique(given.test[:, 0])
    known = np.concatenate([given.train, given.valid])
    known = known[np.argsort(known[:, 0], kind="stable")]
    known_items = torch.from_numpy(known[:, 1].copy())
    starts = torch.from_numpy(np.searchsorted(known[:, 0], np.arange(given.n_users + 1)))
    user_vectors, item_vectors = torch.from_numpy(given.user_vectors), torch.from_numpy(given.item_vectors)

    def rank() -> tuple[torch.Tensor, torch.Tensor]:
        best = []
        for block in torch.split(torch.from_numpy(users), BLOCK):
            scores = user_vectors[block] @ item_vectors.T
            sizes = starts[block + 1] - starts[block]
            rows = torch.repeat_interleave(torch.arange(len(block)), sizes)
            within = torch.arange(len(rows)) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
            scores[rows, known_items[starts[block][rows] + within]] = -torch.inf
            best.append(scores.topk(K))
        return torch.cat([top.indices for top in best]), torch.cat([top.values for top in best])

    return users, rank
