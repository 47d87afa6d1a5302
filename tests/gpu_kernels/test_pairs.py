"""Scores and gradients of a batch on the GPU against autograd in float64.

With little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/gpu_kernels/test_pairs.py`
"""

import pytest
import torch

from pspns.shapes import Embeddings, take

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
N_USERS, N_ITEMS = 60, 40


def make_batch(n_replicas, n_rows):
    """Every node many times; one replica's rows all touch user 3, as the rows that fill up an epoch's last batch do."""
    generator = torch.Generator().manual_seed(0)
    users, items, negatives = (
        torch.randint(n, (n_replicas, n_rows), generator=generator) for n in (N_USERS, N_ITEMS, N_ITEMS)
    )
    users[-1] = 3
    negatives[0, :5] = items[0, :5]
    return [numbers.cuda() for numbers in (users, items, negatives)]


def make_tables(n_replicas, size, seed):
    generator = torch.Generator().manual_seed(seed)
    tables = [torch.randn(n, n_replicas, size, generator=generator).cuda() for n in (N_USERS, N_ITEMS)]
    return Embeddings(*tables)


def make_slopes(n_replicas, n_rows):
    """All above 0: sums that cancel would show float32's rounding large."""
    return torch.rand(3, n_replicas, n_rows, generator=torch.Generator().manual_seed(3)).cuda()


def expected(numbers, tables, base, slopes):
    """Scores, squares, and the gradients of Σ slope · value by all four tables, in float64."""
    leaves = [table.double().requires_grad_() for table in (tables.users, tables.items)]
    leaves += leaves if base is tables else [table.double().requires_grad_() for table in (base.users, base.items)]
    users, items, negatives = numbers
    u, i, j = take(leaves[0], users), take(leaves[1], items), take(leaves[1], negatives)
    own = take(leaves[2], users), take(leaves[3], items), take(leaves[3], negatives)
    values = (u * i).sum(-1), (u * j).sum(-1), sum(rows.square().sum(-1) for rows in own)
    total = sum((slope.double() * value).sum() for slope, value in zip(slopes, values, strict=True))
    return values, torch.autograd.grad(total, leaves)


@pytest.mark.parametrize("size", [1, 5, 64, 100])
@pytest.mark.parametrize(("n_replicas", "n_rows"), [(1, 64), (3, 2048), (2, 5000)])
@pytest.mark.parametrize("is_base", [False, True])
def test_equals_autograd(n_replicas, n_rows, size, is_base):
    from pspns.gpu_kernels.pairs import GpuPairs

    numbers = make_batch(n_replicas, n_rows)
    tables = make_tables(n_replicas, size, 1)
    base = tables if is_base else make_tables(n_replicas, size, 2)
    slopes = make_slopes(n_replicas, n_rows)
    values, gradients = expected(numbers, tables, base, slopes)

    pairs = GpuPairs(*numbers)
    for found, value in zip(pairs.scores(tables, base), values, strict=True):
        torch.testing.assert_close(found.double(), value, rtol=1e-5, atol=1e-5)
    of_tables, of_squares = pairs.gradient(tables, *slopes)
    found = [of_tables.users, of_tables.items]
    of_base = [2 * of_squares.users[..., None] * base.users, 2 * of_squares.items[..., None] * base.items]
    if is_base:  # torch puts the two into one
        found, gradients = [one + two for one, two in zip(found, of_base, strict=True)], gradients[:2]
    else:
        found += of_base
    for one, two in zip(found, gradients, strict=True):
        assert (one.double() - two).norm() / two.norm() < 1e-6


def test_gives_the_same_bits_every_time_and_in_company():
    from pspns.gpu_kernels.pairs import GpuPairs

    numbers, tables = make_batch(3, 2048), make_tables(3, 64, 1)
    slopes = make_slopes(3, 2048)
    own = Embeddings(tables.users[:, [1]].contiguous(), tables.items[:, [1]].contiguous())
    together, again = (GpuPairs(*numbers).gradient(tables, *slopes) for _ in range(2))
    alone = GpuPairs(*(n[[1]] for n in numbers)).gradient(own, *(slope[[1]] for slope in slopes))
    for kind in range(2):
        for side in ("users", "items"):
            one, two, three = (getattr(found[kind], side) for found in (together, again, alone))
            assert torch.equal(one, two)
            assert torch.equal(one[:, 1], three[:, 0])
