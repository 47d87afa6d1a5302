from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from pspns import spectral
from pspns.out_of_core.number_file import NumberFile
from pspns.out_of_core.spilled_matrix import SpilledMatrix
from pspns.spectral import Normalised, randomized_svd, shard_bounds, truncated_svd

CPU = torch.device("cpu")


def random_matrix(n_users: int = 60, n_items: int = 40) -> sparse.csr_array:
    """Two users and an item are without pairs."""
    dense = np.random.default_rng(0).random((n_users, n_items)) < np.linspace(0.5, 0.05, n_items)
    dense[[3, n_users - 1]] = False
    dense[:, 7] = False
    return sparse.csr_array(dense.astype(np.float32))


def on_disk(matrix: sparse.csr_array, folder: Path) -> SpilledMatrix:
    items = NumberFile(folder / "items", np.int32)
    for piece in np.array_split(matrix.indices, 3):
        items.append(piece)
    degrees = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return SpilledMatrix(matrix.indptr.astype(np.int64), items, degrees)


def operator(matrix: sparse.csr_array, folder: Path) -> Normalised:
    return on_disk(matrix, folder).normalised(CPU, folder / "transposed", after_product=lambda: None)


def test_a_shard_ends_with_the_user_who_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "SHARD_PAIRS", 10)
    # Users with 4, 5, 0, 3, 25, 1 and 2 pairs.
    starts = np.array([0, 4, 9, 9, 12, 37, 38, 40])
    assert shard_bounds(starts) == [(0, 4), (4, 5), (5, 7)]
    monkeypatch.setattr(spectral, "SHARD_PAIRS", 1000)
    assert shard_bounds(starts) == [(0, 7)]


def test_rows_and_pairs_of_some_users(tmp_path: Path) -> None:
    matrix = random_matrix()
    spilled = on_disk(matrix, tmp_path)
    assert len(spilled) == matrix.nnz
    assert spilled.shape == (60, 40)
    assert np.array_equal(spilled.rows_of(2, 11).toarray(), matrix[2:11].toarray())
    pairs = spilled.pairs_of(2, 11)
    assert np.array_equal(pairs.matrix(9, 40).toarray(), matrix[2:11].toarray())


@pytest.mark.parametrize("shard_pairs", [50, 10_000])
class TestProducts:
    @pytest.fixture(autouse=True)
    def _shards(self, monkeypatch: pytest.MonkeyPatch, shard_pairs: int) -> None:
        monkeypatch.setattr(spectral, "SHARD_PAIRS", shard_pairs)

    def test_those_of_the_dense_normalised_matrix(self, tmp_path: Path) -> None:
        matrix = random_matrix()
        dense = matrix.toarray().astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            dense = np.nan_to_num(dense / np.sqrt(np.outer(dense.sum(1), dense.sum(0))))
        x, y = torch.randn(40, 6), torch.randn(60, 6)
        normalised = operator(matrix, tmp_path)
        np.testing.assert_allclose(normalised.times(x), dense @ x.double().numpy(), atol=1e-6)
        np.testing.assert_allclose(normalised.transposed_times(y), dense.T @ y.double().numpy(), atol=1e-6)
        np.testing.assert_allclose(normalised.there_and_back(x), dense.T @ dense @ x.double().numpy(), atol=1e-6)

    def test_the_same_bits_as_in_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
        matrix = random_matrix(300, 200)
        from_disk = randomized_svd(operator(matrix, tmp_path), 12, np.random.default_rng(0))
        for one, two in zip(from_disk, truncated_svd(matrix, 12, np.random.default_rng(0)), strict=True):
            assert torch.equal(one, two)

    def test_each_goes_once_over_all_pairs(self, tmp_path: Path) -> None:
        products: list[None] = []
        matrix = on_disk(random_matrix(), tmp_path)
        normalised = matrix.normalised(CPU, tmp_path / "transposed", after_product=lambda: products.append(None))
        assert products == []
        randomized_svd(normalised, 5, np.random.default_rng(0))
        assert len(products) == spectral.POWER_PASSES + 2
