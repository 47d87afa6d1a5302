"""Message passing against powers of a dense matrix in float64, and the forms for the GPU against the plain one.

On a machine that has little beside torch, such as one with a GPU:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/models/test_propagation.py`
"""

import numpy as np
import pytest
import torch
from scipy import sparse
from toy import CPU

from pspns.memory import GIB, MemoryBudget
from pspns.models._propagation import SparseLayers, _dense_is_faster, best_operator, propagate

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
N_USERS, N_ITEMS = 17, 11
N_REPLICAS, SIZE = 3, 5
MAX_LAYERS = 4


def make_weights(n_users=N_USERS, n_items=N_ITEMS, *, weighted: bool, share=0.3, seed=0) -> sparse.csr_array:
    """A random graph; one user and one item have no edges, one user has all other items."""
    rng = np.random.default_rng(seed)
    weights = (rng.random((n_users, n_items)) < share) * (rng.integers(1, 6, (n_users, n_items)) if weighted else 1)
    weights[3] = 2 if weighted else 1
    weights[5], weights[:, 4] = 0, 0
    return sparse.csr_array(weights.astype(np.float32))


def dense_operator(weights: sparse.csr_array, layers: int, first: int = 0) -> np.ndarray:
    """The mean of Ã^l, l from `first` to `layers`, over users and items together."""
    n_users = weights.shape[0]
    adjacency = np.zeros((sum(weights.shape),) * 2)
    adjacency[:n_users, n_users:] = weights.toarray()
    adjacency += adjacency.T
    degrees = adjacency.sum(1)
    scale = np.where(degrees > 0, np.maximum(degrees, 1) ** -0.5, 0)
    normalised = scale[:, None] * adjacency * scale
    return np.mean([np.linalg.matrix_power(normalised, power) for power in range(first, layers + 1)], axis=0)


def make_tables(weights: sparse.csr_array, n_replicas=N_REPLICAS, size=SIZE, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, n_replicas, size, dtype=dtype, generator=generator) for n in weights.shape]


def expected_tables(weights: sparse.csr_array, layers: int, users, items, first: int = 0):
    """The dense operator on every replica apart."""
    both = torch.cat((users, items)).double().numpy()
    found = np.stack([dense_operator(weights, layers, first) @ both[:, r] for r in range(both.shape[1])], axis=1)
    return torch.from_numpy(found[: len(users)]), torch.from_numpy(found[len(users) :])


def distance(found, expected) -> float:
    """Of two pairs of tables, beside the length of the second."""
    found, expected = (torch.cat([table.detach().double().cpu() for table in pair]) for pair in (found, expected))
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", range(MAX_LAYERS + 1))
def test_equals_dense_matrix_powers(layers, weighted):
    weights = make_weights(weighted=weighted)
    users, items = make_tables(weights)
    expected = expected_tables(weights, layers, users, items)
    exact = SparseLayers(weights, layers, CPU, torch.float64)
    assert distance(propagate(exact, users, items), expected) < 1e-15
    rounded = SparseLayers(weights, layers, CPU)
    assert distance(propagate(rounded, users.float(), items.float()), expected) < 2e-7


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_mean_may_begin_at_layer_1(layers, weighted):
    """One layer is then the normalised graph itself."""
    weights = make_weights(weighted=weighted)
    users, items = make_tables(weights)
    expected = expected_tables(weights, layers, users, items, first=1)
    exact = SparseLayers(weights, layers, CPU, torch.float64, with_first=False)
    assert distance(propagate(exact, users, items), expected) < 1e-15
    assert distance(expected, expected_tables(weights, layers, users, items)) > 0.1
    rounded = best_operator(weights, layers, MemoryBudget(CPU), with_first=False)
    found = propagate(rounded, users.float(), items.float())
    assert distance(found, expected) < 2e-7
    assert (found[0][5] == 0).all(), "a node without edges gets no message"
    assert (found[1][4] == 0).all()


@pytest.mark.parametrize("layers", [1, 3])
def test_without_layer_0_derivatives_equal_differences_too(layers):
    weights = make_weights(6, 7, weighted=True)
    operator = SparseLayers(weights, layers, CPU, torch.float64, with_first=False)
    tables = [table.requires_grad_() for table in make_tables(weights, n_replicas=2, size=2)]
    assert torch.autograd.gradcheck(lambda *given: propagate(operator, *given), tables)
    assert torch.autograd.gradgradcheck(lambda *given: torch.cat(propagate(operator, *given)).square(), tables)


def test_what_goes_in_stays_as_it_was():
    weights = make_weights(weighted=False)
    users, items = make_tables(weights)
    before = users.clone(), items.clone()
    propagate(SparseLayers(weights, 3, CPU, torch.float64), users, items)
    assert torch.equal(users, before[0])
    assert torch.equal(items, before[1])


def test_a_node_without_edges_keeps_its_share_of_layer_0():
    weights = make_weights(weighted=False)
    users, items = make_tables(weights)
    found = propagate(SparseLayers(weights, 3, CPU, torch.float64), users, items)
    torch.testing.assert_close(found[0][5], users[5] / 4)
    torch.testing.assert_close(found[1][4], items[4] / 4)


@pytest.mark.parametrize("layers", range(MAX_LAYERS + 1))
def test_gradient_equals_autograd_through_the_dense_form(layers):
    weights = make_weights(weighted=True)
    coefficients = torch.randn(N_USERS + N_ITEMS, N_REPLICAS, SIZE, dtype=torch.float64)

    def gradients(passed_on):
        tables = [table.requires_grad_() for table in make_tables(weights)]
        # Not linear in what is passed on, so that a gradient of something else would show.
        (torch.cat(passed_on(*tables)).tanh() * coefficients).sum().backward()
        return [table.grad for table in tables]

    matrix = torch.from_numpy(dense_operator(weights, layers))

    def dense(users, items):
        found = torch.einsum("nm,mrs->nrs", matrix, torch.cat((users, items)))
        return found[:N_USERS], found[N_USERS:]

    operator = SparseLayers(weights, layers, CPU, torch.float64)
    assert distance(gradients(lambda *tables: propagate(operator, *tables)), gradients(dense)) < 1e-14


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_first_and_second_derivatives_equal_differences(layers):
    weights = make_weights(6, 7, weighted=True)
    operator = SparseLayers(weights, layers, CPU, torch.float64)
    tables = [table.requires_grad_() for table in make_tables(weights, n_replicas=2, size=2)]
    assert torch.autograd.gradcheck(lambda *given: propagate(operator, *given), tables)
    assert torch.autograd.gradgradcheck(lambda *given: propagate(operator, *given), tables)
    # A product of what is passed on has a second derivative that is not 0.
    assert torch.autograd.gradgradcheck(lambda *given: torch.cat(propagate(operator, *given)).square(), tables)


def test_a_gradient_that_is_one_number_for_all_is_passed_back_as_any_other():
    # The gradient of a sum is an expanded tensor: one number in memory.
    weights = make_weights(weighted=False)
    users, items = (table.requires_grad_() for table in make_tables(weights))
    sum(table.sum() for table in propagate(SparseLayers(weights, 2, CPU, torch.float64), users, items)).backward()
    ones = [torch.ones_like(table) for table in (users, items)]
    assert distance((users.grad, items.grad), expected_tables(weights, 2, *ones)) < 1e-15


def test_replicas_do_not_mix():
    weights = make_weights(weighted=False)
    users, items = (table.requires_grad_() for table in make_tables(weights, dtype=torch.float32))
    operator = SparseLayers(weights, 3, CPU)
    found = propagate(operator, users, items)
    others = [table.detach().clone() for table in (users, items)]
    for table in others:
        table[:, [0, 2]] += 1
    changed = propagate(operator, *others)
    for one, two in zip(found, changed, strict=True):
        assert torch.equal(one[:, 1], two[:, 1])
        assert not torch.equal(one[:, 0], two[:, 0])
    sum(table[:, 1].square().sum() for table in found).backward()
    for table in (users, items):
        assert (table.grad[:, [0, 2]] == 0).all()
        assert (table.grad[:, 1] != 0).any()


@pytest.mark.parametrize("with_first", [True, False])
@pytest.mark.parametrize("size", [1, 4, 5, 8, 16, 17, 32, 64])
@pytest.mark.parametrize("n_replicas", [2, 5])
def test_a_replica_gets_the_same_bits_alone_and_in_company(size, n_replicas, with_first):
    weights = make_weights(60, 40, weighted=False)
    users, items = make_tables(weights, n_replicas, size, torch.float32)
    operator = SparseLayers(weights, 3, CPU, with_first=with_first)
    together = propagate(operator, users, items)
    for replica in range(n_replicas):
        alone = propagate(operator, *(table[:, [replica]].contiguous() for table in (users, items)))
        for side in range(2):
            assert torch.equal(alone[side][:, 0], together[side][:, replica])


@pytest.mark.parametrize("mixed", [False, True])
def test_on_the_cpu_nothing_is_rounded_whatever_was_asked_for(mixed):
    weights = make_weights(weighted=False)
    users, items = make_tables(weights, dtype=torch.float32)
    found, plain = (
        propagate(operator, users, items)
        for operator in (best_operator(weights, 3, MemoryBudget(CPU), mixed=mixed), SparseLayers(weights, 3, CPU))
    )
    assert all(map(torch.equal, found, plain))


def test_products_of_the_whole_matrix_are_for_graphs_that_are_dense_and_fit_and_have_exact_weights():
    room = MemoryBudget(CPU, gib=1)
    dense, thin = (make_weights(200, 300, weighted=False, share=share) for share in (0.02, 0.001))
    assert _dense_is_faster(dense, room)
    assert not _dense_is_faster(thin, room)
    assert not _dense_is_faster(dense, MemoryBudget(CPU, gib=5 * 200 * 300 / GIB))
    assert _dense_is_faster(make_weights(200, 300, weighted=True, share=0.02), room)
    assert not _dense_is_faster(dense * np.float32(0.1), room)


# From here on, what runs on a GPU alone.


def gathered(weights, layers, table_dtype=torch.float32, **more):
    from pspns.models._gathered_layers import GatheredLayers

    return GatheredLayers(weights, layers, torch.device("cuda"), table_dtype, **more)


def large_weights(weighted: bool) -> sparse.csr_array:
    """Rows of no edge, of one, and of more than fit in one go of the kernel."""
    return make_weights(400, 300, weighted=weighted, share=0.1)


@on_gpu
@pytest.mark.parametrize(("n_replicas", "size"), [(3, 5), (1, 1), (1, 64), (2, 128), (5, 64)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", range(MAX_LAYERS + 1))
@pytest.mark.parametrize(("table_dtype", "at_most"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3)])
def test_gathered_layers_equal_sparse_ones(layers, weighted, n_replicas, size, table_dtype, at_most):
    weights = large_weights(weighted)
    users, items = make_tables(weights, n_replicas, size, torch.float32)
    expected = propagate(SparseLayers(weights, layers, CPU, torch.float64), users.double(), items.double())
    found = propagate(gathered(weights, layers, table_dtype), users.cuda(), items.cuda())
    assert distance(found, expected) < at_most


@on_gpu
@pytest.mark.parametrize(("n_replicas", "size"), [(3, 5), (1, 64), (5, 64)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("table_dtype", "at_most"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_the_mean_of_gathered_layers_may_begin_at_layer_1(layers, weighted, n_replicas, size, table_dtype, at_most):
    weights = large_weights(weighted)
    users, items = make_tables(weights, n_replicas, size, torch.float32)
    expected = expected_tables(weights, layers, users, items, first=1)
    operator = gathered(weights, layers, table_dtype, with_first=False)
    assert distance(propagate(operator, users.cuda(), items.cuda()), expected) < at_most


@on_gpu
@pytest.mark.parametrize("share", [0.002, 0.9])
def test_the_fastest_form_may_begin_at_layer_1_too(share):
    weights, memory = make_weights(400, 300, weighted=False, share=share), MemoryBudget(torch.device("cuda"))
    users, items = make_tables(weights, 2, 64, torch.float32)
    operator = best_operator(weights, 1, memory, with_first=False)
    found = propagate(operator, users.cuda(), items.cuda())
    assert distance(found, expected_tables(weights, 1, users, items, first=1)) < 1e-6


@on_gpu
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_gathered_layers_pass_the_gradient_back(layers):
    weights = large_weights(weighted=True)
    coefficients = torch.randn(sum(weights.shape), N_REPLICAS, SIZE)

    def gradients(operator, device, dtype):
        tables = [table.to(device, dtype).requires_grad_() for table in make_tables(weights)]
        (torch.cat(propagate(operator, *tables)).tanh() * coefficients.to(device, dtype)).sum().backward()
        return [table.grad for table in tables]

    found = gradients(gathered(weights, layers), "cuda", torch.float32)
    assert distance(found, gradients(SparseLayers(weights, layers, CPU, torch.float64), CPU, torch.float64)) < 1e-6


@on_gpu
def test_gathered_layers_give_the_same_bits_every_time_and_in_a_company_of_up_to_256_columns():
    # More columns are gathered by a kernel of another shape, which sums in another order.
    weights = large_weights(weighted=False)
    users, items = (table.cuda() for table in make_tables(weights, 3, 64, torch.float32))
    operator = gathered(weights, 3)
    together, again = (propagate(operator, users, items) for _ in range(2))
    assert all(map(torch.equal, together, again))
    alone = propagate(operator, users[:, [1]].contiguous(), items[:, [1]].contiguous())
    for side in range(2):
        assert torch.equal(alone[side][:, 0], together[side][:, 1])


@on_gpu
def test_the_fastest_form_rounds_only_where_mixed_is_asked_for():
    memory = MemoryBudget(torch.device("cuda"))
    dense, thin = (make_weights(400, 300, weighted=False, share=share) for share in (0.9, 0.002))
    assert _dense_is_faster(dense, memory)
    assert not _dense_is_faster(thin, memory)
    for weights in (dense, thin):
        users, items = make_tables(weights, 2, 64, torch.float32)
        expected = expected_tables(weights, 3, users, items)
        exact, rounded = (
            distance(propagate(best_operator(weights, 3, memory, mixed=mixed), users.cuda(), items.cuda()), expected)
            for mixed in (False, True)
        )
        assert exact < 1e-6 < rounded < 5e-3


@on_gpu
def test_gathered_layers_read_a_gradient_however_it_lies_in_memory():
    # As above: one number for all. Read row by row it would be whatever lies beside it.
    weights = make_weights(weighted=False)
    users, items = (table.float().cuda().requires_grad_() for table in make_tables(weights))
    sum(table.sum() for table in propagate(gathered(weights, 2), users, items)).backward()
    ones = [torch.ones(table.shape) for table in (users, items)]
    assert distance((users.grad, items.grad), expected_tables(weights, 2, *ones)) < 1e-6
