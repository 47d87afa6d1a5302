"""Message passing as products on the tensor cores against the plain form in float64.

On a machine that has little beside torch, such as one with a GPU:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/models/test_dense_layers.py`
"""

import numpy as np
import pytest
import torch
from scipy import sparse
from toy import CPU

from pspns.models._propagation import SparseLayers, propagate

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def dense_layers(weights, layers, pieces=2, **more):
    from pspns.models._dense_layers import DenseLayers  # needs Triton

    return DenseLayers(weights, layers, GPU, pieces, **more)


def make_weights(n_users=400, n_items=300, *, weighted: bool = False, share=0.1) -> sparse.csr_array:
    """One user and one item have no edges, one user has all other items; rows are no whole number of blocks."""
    rng = np.random.default_rng(0)
    weights = (rng.random((n_users, n_items)) < share) * (rng.integers(1, 256, (n_users, n_items)) if weighted else 1)
    weights[3] = 1
    weights[5], weights[:, 4] = 0, 0
    return sparse.csr_array(weights.astype(np.float32))


def make_tables(weights, n_replicas=1, size=64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, n_replicas, size, generator=generator) for n in weights.shape]


def distance(found, expected) -> float:
    found, expected = (torch.cat([table.detach().double().cpu() for table in pair]) for pair in (found, expected))
    return float((found - expected).norm() / expected.norm())


def check_against_float64(weights, layers, n_replicas, size, pieces, with_first=True):
    tables = make_tables(weights, n_replicas, size)
    exact = SparseLayers(weights, layers, CPU, torch.float64, with_first=with_first)
    expected = propagate(exact, *(table.double() for table in tables))
    found = propagate(
        dense_layers(weights, layers, pieces, with_first=with_first), *(table.to(GPU) for table in tables)
    )
    # Layer 0, where it is part of the mean, is exact, and longer than the others.
    assert distance(found, expected) < {1: 5e-4, 2: 2.5e-7}[pieces] * (1 if with_first else 2)


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("n_replicas", "size"), [(1, 64), (1, 1), (3, 5), (3, 64), (10, 64), (2, 100)])
def test_equals_sparse_layers_in_float64(n_replicas, size, pieces):
    check_against_float64(make_weights(), 3, n_replicas, size, pieces)


@pytest.mark.parametrize("layers", [0, 1, 2, 4])
def test_any_number_of_layers(layers):
    check_against_float64(make_weights(), layers, 3, 64, pieces=2)


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("n_replicas", "size"), [(1, 64), (3, 5), (10, 64)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_mean_may_begin_at_layer_1(layers, n_replicas, size, pieces):
    check_against_float64(make_weights(), layers, n_replicas, size, pieces, with_first=False)


@pytest.mark.parametrize("pieces", [1, 2])
def test_weights_of_up_to_a_byte(pieces):
    check_against_float64(make_weights(weighted=True), 3, 3, 64, pieces)


@pytest.mark.parametrize(("n_users", "n_items"), [(130, 1000), (128, 256), (6, 7)])
def test_any_number_of_nodes(n_users, n_items):
    check_against_float64(make_weights(n_users, n_items), 3, 2, 64, pieces=2)


@pytest.mark.parametrize("exponent", [-100, -30, 0, 30, 100])
def test_size_of_the_numbers_does_not_matter(exponent):
    """Each column has a power of two of its own: no factor may cost digits, and none may touch the next column."""
    weights = make_weights()
    tables = [table.to(GPU) for table in make_tables(weights)]
    plain = propagate(dense_layers(weights, 3), *tables)
    factors = torch.ones(64, device=GPU)
    factors[::2] = 2.0**exponent
    scaled = propagate(dense_layers(weights, 3), *(table * factors for table in tables))
    for one, two in zip(plain, scaled, strict=True):
        assert torch.equal(one * factors, two)


def test_columns_of_zeros_stay_zeros():
    weights = make_weights()
    users, items = (table.to(GPU) for table in make_tables(weights))
    users[..., 7], items[..., 7] = 0, 0
    for table in propagate(dense_layers(weights, 3), users, items):
        assert (table[..., 7] == 0).all()
        assert (table[..., 8] != 0).any()


def test_what_is_not_a_number_shows():
    weights = make_weights()
    users, items = (table.to(GPU) for table in make_tables(weights))
    users[3, 0, 7] = torch.nan
    _, found = propagate(dense_layers(weights, 3), users, items)
    assert found[:, 0, 7].isnan().any()
    assert not found[:, 0, 8].isnan().any()


def test_passes_the_gradient_back():
    weights = make_weights(weighted=True)
    coefficients = torch.randn(sum(weights.shape), 2, 8, dtype=torch.float64)

    def gradients(operator, device, dtype):
        tables = [table.to(device, dtype).requires_grad_() for table in make_tables(weights, 2, 8)]
        (torch.cat(propagate(operator, *tables)).tanh() * coefficients.to(device, dtype)).sum().backward()
        return [table.grad for table in tables]

    expected = gradients(SparseLayers(weights, 3, CPU, torch.float64), CPU, torch.float64)
    assert distance(gradients(dense_layers(weights, 3), GPU, torch.float32), expected) < 1e-6


@pytest.mark.parametrize("n_replicas", [2, 3, 10])
def test_gives_the_same_bits_every_time_and_in_company(n_replicas):
    weights = make_weights()
    users, items = (table.to(GPU) for table in make_tables(weights, n_replicas))
    operator = dense_layers(weights, 3)
    together, again = (propagate(operator, users, items) for _ in range(2))
    assert all(map(torch.equal, together, again))
    alone = propagate(operator, users[:, [1]].contiguous(), items[:, [1]].contiguous())
    for side in range(2):
        assert torch.equal(alone[side][:, 0], together[side][:, 1])
