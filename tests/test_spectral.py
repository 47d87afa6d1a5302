import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from pspns import spectral
from pspns.spectral import truncated_svd


def random_matrix(n_users: int, n_items: int, density: float, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    # Popularity falls along the items, so that the spectrum falls too, as in real data.
    likely = density * 2 * np.linspace(2, 0.05, n_items)
    return sparse.csr_array((rng.random((n_users, n_items)) < likely).astype(np.float32))


def normalised(matrix: sparse.csr_array) -> np.ndarray:
    dense = matrix.toarray().astype(np.float64)
    rows, columns = dense.sum(1), dense.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(dense / np.sqrt(np.outer(rows, columns)))


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_exact_equals_lapack(shape):
    matrix = random_matrix(*shape, 0.1)
    U, S, V = (t.double().numpy() for t in truncated_svd(matrix, 12, np.random.default_rng(0)))
    u, s, vt = np.linalg.svd(normalised(matrix), full_matrices=False)
    np.testing.assert_allclose(S, s[:12], atol=1e-6)
    np.testing.assert_allclose((U * S) @ V.T, (u[:, :12] * s[:12]) @ vt[:12], atol=1e-5)
    np.testing.assert_allclose(U.T @ U, np.eye(12), atol=1e-5)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("exact_up_to", [0, 1000])
def test_exact_on_a_gpu_equals_lapack(monkeypatch, exact_up_to):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", exact_up_to)
    matrix = random_matrix(60, 40, 0.1)
    U, S, V = truncated_svd(matrix, 12, np.random.default_rng(0), "cuda", exact=True)
    assert U.is_cuda
    assert V.is_cuda
    u, s, vt = np.linalg.svd(normalised(matrix), full_matrices=False)
    np.testing.assert_allclose(S.cpu(), s[:12], atol=1e-6)
    np.testing.assert_allclose(((U * S) @ V.T).cpu(), (u[:, :12] * s[:12]) @ vt[:12], atol=1e-5)


def test_exact_where_asked_for_whatever_the_size(monkeypatch):
    matrix = random_matrix(60, 40, 0.1)
    small = truncated_svd(matrix, 12, np.random.default_rng(0))
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    asked_for = truncated_svd(matrix, 12, np.random.default_rng(1), exact=True)
    randomized = truncated_svd(matrix, 12, np.random.default_rng(1))
    for one, two, three in zip(small, asked_for, randomized, strict=True):
        assert torch.equal(one, two)
        assert not torch.equal(one, three)


def test_randomized_equals_a_float64_implementation_with_the_same_start(monkeypatch):
    matrix, rank = random_matrix(300, 200, 0.05), 10
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    U, S, V = (t.double().numpy() for t in truncated_svd(matrix, rank, np.random.default_rng(4)))

    A = normalised(matrix)
    start = np.random.default_rng(4).standard_normal((200, rank + spectral.OVERSAMPLING)).astype(np.float32)
    Q, _ = np.linalg.qr(A @ start)
    for _ in range(spectral.POWER_PASSES):
        Q, _ = np.linalg.qr(A @ np.linalg.qr(A.T @ Q)[0])
    u, s, vt = np.linalg.svd(Q.T @ A, full_matrices=False)
    np.testing.assert_allclose(S, s[:rank], atol=1e-6)
    np.testing.assert_allclose((U * S) @ V.T, Q @ (u[:, :rank] * s[:rank]) @ vt[:rank], atol=1e-5)


def test_singular_values_agree_with_scikit_learn_on_a_larger_matrix():
    matrix = random_matrix(1500, 1200, 0.03)
    _, S, _ = truncated_svd(matrix, 20, np.random.default_rng(0))
    _, reference, _ = randomized_svd(
        sparse.csr_matrix(normalised(matrix)), 20, n_oversamples=10, n_iter=7, random_state=0
    )
    np.testing.assert_allclose(S.numpy(), reference, rtol=5e-3)
    assert S[0].item() == pytest.approx(1, abs=1e-4)  # the normalised matrix has norm 1


def test_users_and_items_without_pairs_get_zero_factors():
    matrix = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=np.float32))
    U, S, V = truncated_svd(matrix, 2, np.random.default_rng(0))
    assert torch.isfinite(U).all()
    assert torch.isfinite(V).all()
    reconstruction = (U * S) @ V.T
    assert reconstruction[1].abs().max() < 1e-6
    assert reconstruction[:, 1].abs().max() < 1e-6


def test_more_columns_than_the_matrix_has_rank(monkeypatch):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    matrix = sparse.csr_array(np.ones((30, 20), dtype=np.float32))  # rank 1
    U, S, V = truncated_svd(matrix, 5, np.random.default_rng(0))
    assert S[0].item() == pytest.approx(1, abs=1e-5)
    assert S[1:].abs().max() < 1e-3
    np.testing.assert_allclose(((U * S) @ V.T).numpy(), np.full((30, 20), 1 / np.sqrt(600)), atol=1e-5)


@pytest.mark.parametrize("exact_up_to", [0, 1000])
def test_same_bits_with_one_and_two_threads(monkeypatch, exact_up_to):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", exact_up_to)
    matrix = random_matrix(1200, 900, 0.03)
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append(truncated_svd(matrix, 40, np.random.default_rng(0)))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)
