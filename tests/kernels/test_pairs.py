"""Scores of pairs and their gradients, against torch's autograd in float64."""

import numpy as np
import pytest
import torch

from pspns.kernels import pairs
from pspns.shapes import take


@pytest.mark.parametrize("size", [1, 33, 64])  # 33: two turns of columns, one of them short
def test_scores_and_gradients(size):
    rng = np.random.default_rng(size)
    n_users, n_items, n_replicas, n_rows = 7, 5, 2, 100
    tables = [rng.normal(size=(n, n_replicas, size)).astype(np.float32) for n in (n_users, n_items)]
    of_users, positives, negatives = (rng.integers(n, size=(n_replicas, n_rows)) for n in (n_users, n_items, n_items))
    assert (positives == negatives).any()  # both gradients go to one row
    slopes = [rng.normal(size=(n_replicas, n_rows)).astype(np.float32) for _ in range(3)]

    users, items = (torch.from_numpy(table).double().requires_grad_() for table in tables)
    u, i, j = (
        take(table, torch.from_numpy(numbers))
        for table, numbers in ((users, of_users), (items, positives), (items, negatives))
    )
    expected = [(u * i).sum(-1), (u * j).sum(-1), u.square().sum(-1) + i.square().sum(-1) + j.square().sum(-1)]
    sum((torch.from_numpy(s) * e).sum() for s, e in zip(slopes, expected, strict=True)).backward()

    found = [np.empty((n_replicas, n_rows), dtype=np.float32) for _ in range(3)]
    pairs.score_pairs(*tables, of_users, positives, negatives, *found)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two.detach(), rtol=1e-4, atol=1e-4)

    gradients = [np.ones_like(table) for table in tables]  # what is there already stays
    pairs.add_gradients(*tables, of_users, positives, negatives, *slopes, *gradients)
    for one, two in zip(gradients, (users, items), strict=True):
        np.testing.assert_allclose(one - 1, two.grad, rtol=1e-3, atol=1e-3)
