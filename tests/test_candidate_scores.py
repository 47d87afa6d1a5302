"""Scores of candidates, on every device, against sums in float64."""

import pytest
import torch

from pspns.candidate_scores import candidate_scores
from pspns.shapes import take

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
N_USERS, N_ITEMS = 50, 30


def given(n_replicas, n_rows, n, size, device):
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(count, n_replicas, size, generator=generator).to(device) for count in (N_USERS, N_ITEMS)]
    users = torch.randint(N_USERS, (n_replicas, n_rows), generator=generator).to(device)
    items = torch.randint(N_ITEMS, (n_replicas, n_rows, n), generator=generator).to(device)
    return *tables, users, items


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("n_replicas", "n_rows", "n", "size"), [(1, 1, 1, 1), (3, 70, 5, 33), (2, 40, 200, 64)])
def test_equals_sums_in_float64(n_replicas, n_rows, n, size, device):
    users_table, items_table, users, items = given(n_replicas, n_rows, n, size, device)
    expected = (take(users_table.double(), users)[..., None, :] * take(items_table.double(), items)).sum(-1)
    found = candidate_scores(users_table, items_table, users, items)
    assert found.shape == (n_replicas, n_rows, n)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_replica_alone_and_in_company_has_the_same_bits(device):
    tables = given(3, 70, 8, 33, device)
    together = candidate_scores(*tables)
    users_table, items_table, users, items = tables
    alone = candidate_scores(users_table[:, 1:2], items_table[:, 1:2], users[1:2], items[1:2])
    assert torch.equal(together[1:2], alone)


@pytest.mark.parametrize("device", DEVICES)
def test_no_gradient_passes_through_a_choice(device):
    users_table, items_table, users, items = given(1, 4, 3, 8, device)
    assert not candidate_scores(users_table.requires_grad_(), items_table.requires_grad_(), users, items).requires_grad
