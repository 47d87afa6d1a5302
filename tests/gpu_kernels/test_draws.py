"""Negatives drawn by one kernel on the GPU are those that the plain form draws on the CPU, to the last one."""

import numpy as np
import pytest
import torch

from pspns.data.split import Pairs
from pspns.item_sets import ItemSets
from pspns.rng import ReplicaStream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
N_USERS, N_ITEMS = 50, 300


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 64, 1000])
def test_equals_the_plain_form(n, n_rows):
    from pspns.gpu_kernels.draws import draw_outside

    rng = np.random.default_rng(0)
    owned = rng.random((N_USERS, N_ITEMS)) < rng.random(N_USERS)[:, None]
    owned[0], owned[1], owned[:, 0] = False, True, False  # one owns nothing, one all but an item
    users, items = np.nonzero(owned)
    sets = ItemSets(N_USERS, N_ITEMS, Pairs(users, items))
    starts = np.concatenate(([0], np.cumsum(owned.sum(1))))
    outside_below = items - (np.arange(len(items)) - starts[users])
    asked = torch.from_numpy(rng.integers(N_USERS, size=(3, n_rows)))

    plain, stream = (ReplicaStream([0, 7, 2**40], "negatives", device) for device in ("cpu", "cuda"))
    plain.calls = stream.calls = 12345
    for _ in range(2):
        expected = sets.draw_outside(asked, n, plain)
        found = draw_outside(
            stream._keys, stream._calls, asked.cuda(), torch.from_numpy(starts).cuda(),
            torch.from_numpy(outside_below).cuda(), N_ITEMS, n,
        )  # fmt: skip
        stream._calls += 1
        assert torch.equal(found.cpu(), expected)
