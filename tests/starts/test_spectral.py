"""The spectral start against dense float64 matrices and the model `svd`."""

import numpy as np
import pytest
import torch
from toy import make_world, random_pairs, toy_world

from pspns import spectral
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.models.svd import SvdRanking
from pspns.starts._score_spread import score_deviation
from pspns.starts.spectral import SpectralStart


def world_of(matrix: np.ndarray):
    return make_world(Pairs(*np.nonzero(matrix)), *matrix.shape)


def tables(world, size: int, seed: int = 0, **settings) -> tuple[np.ndarray, np.ndarray]:
    users, items = SpectralStart(**{"score_spread": 1.0, **settings}).embeddings(
        world, size, np.random.default_rng(seed)
    )
    return users.astype(np.float64), items.astype(np.float64)


def reconstruction(world, rank: int) -> np.ndarray:
    """U Σ Vᵀ √degree of the normalised matrix, by LAPACK in float64."""
    dense = world.train.matrix(world.n_users, world.n_items).toarray().astype(np.float64)
    by_user, by_item = np.maximum(dense.sum(1), 1), np.maximum(dense.sum(0), 1)
    u, s, vt = np.linalg.svd(dense / np.sqrt(np.outer(by_user, by_item)), full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank] * np.sqrt(dense.sum(0))


def row_length(table: np.ndarray) -> float:
    return float(np.sqrt((table**2).sum(1).mean()))


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
@pytest.mark.parametrize("size", [1, 8, 40])
def test_scores_are_the_reconstruction_up_to_a_factor(shape, size):
    world = toy_world(5, *shape, n_pairs=400)
    users, items = tables(world, size)
    expected = reconstruction(world, size)
    np.testing.assert_allclose(users @ items.T, expected / expected.std(), atol=2e-5)


@pytest.mark.parametrize("score_spread", [0.01, 1.0, 30.0])
def test_scores_have_the_given_spread_and_tables_equal_lengths(score_spread):
    users, items = tables(toy_world(2, 300, 80, 2000), 12, score_spread=score_spread)
    assert (users @ items.T).std() == pytest.approx(score_spread, rel=1e-6)
    assert row_length(users) == pytest.approx(row_length(items), rel=1e-6)


def test_each_column_has_the_root_of_its_singular_value_on_both_sides():
    # Without item degrees to tell apart, both tables are singular vectors times √σ: lengths fall alike.
    matrix = np.array([np.roll([1, 1, 1, 0, 1, 0, 0, 0], shift) for shift in range(8)])  # all degrees 4
    users, items = tables(world_of(matrix), 8)
    singular_values = np.linalg.svd(matrix / 4, compute_uv=False)
    for table in (users, items):
        squares = (table**2).sum(0)
        np.testing.assert_allclose(squares / squares[0], singular_values, atol=1e-5)


@pytest.mark.parametrize("exact_up_to", [0, 1000])
def test_the_untrained_model_ranks_as_the_model_svd(monkeypatch, exact_up_to):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", exact_up_to)
    world = toy_world(1, 60, 40, 500)
    users, items = tables(world, 7)
    expected = SvdRanking(rank=7).fit(world, None).scorer.scores(torch.arange(60), 0).double().numpy()
    scores = users @ items.T
    np.testing.assert_allclose(scores, expected * scores.std() / expected.std(), atol=1e-5)
    in_our_order = np.take_along_axis(expected, np.argsort(-scores, axis=1), axis=1)
    assert np.diff(in_our_order).max() < 1e-5  # falling, but for what is equal up to rounding


def test_vectors_longer_than_the_data_have_directions_can_learn_and_change_no_score():
    matrix = np.zeros((12, 9), dtype=int)  # three groups, and so three directions
    for group in range(3):
        matrix[group * 4 : group * 4 + 4, group * 3 : group * 3 + 3] = 1
    matrix[0, 0] = 0  # four
    world = world_of(matrix)
    users, items = tables(world, 16)
    short_users, short_items = tables(world, 4)
    assert np.array_equal(users[:, :4], short_users)
    assert np.array_equal(items[:, :4], short_items)
    np.testing.assert_allclose(users @ items.T, short_users @ short_items.T, atol=1e-12)
    assert (users @ items.T).std() == pytest.approx(1, rel=1e-6)
    # The rest is as Xavier draws it for users, 0 for items; each seed draws its own.
    assert np.array_equal(items[:, 4:], np.zeros((9, 12)))
    bound = np.sqrt(6 / (12 + 16))
    assert 0.9 * bound < np.abs(users[:, 4:]).max() <= bound
    others, _ = tables(world, 16, seed=1)
    assert np.array_equal(others[:, :4], short_users)
    assert not (others[:, 4:] == users[:, 4:]).any()


@pytest.mark.parametrize("exact_up_to", [0, 1000])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (6, 4)])
def test_scores_that_are_all_equal_stay_as_they_are(monkeypatch, shape, exact_up_to):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", exact_up_to)
    users, items = tables(world_of(np.ones(shape, dtype=int)), 3)
    # σ = 1, U and V constant: 1/√n_users · 1/√n_items · √n_users.
    np.testing.assert_allclose(users @ items.T, np.full(shape, 1 / np.sqrt(shape[1])), rtol=1e-5)
    assert np.abs(users[:, 1:]).min() > 0


def test_users_and_items_without_pairs_start_at_zero():
    matrix = np.zeros((10, 8), dtype=int)
    matrix[1:, 1:] = np.random.default_rng(0).random((9, 7)) < 0.5
    users, items = tables(world_of(matrix), 3)
    np.testing.assert_allclose(users[0], 0, atol=1e-6)
    np.testing.assert_allclose(items[0], 0, atol=1e-6)
    assert (users @ items.T).std() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("score_spread", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_spreads_are_refused(score_spread):
    with pytest.raises(SettingsError, match=r"^score_spread must be above 0 and finite, got .*; change \[start\]"):
        SpectralStart(score_spread=score_spread)


# --- the deviation of all scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_users", "n_items", "size"), [(1, 2, 1), (700, 300, 5), (300, 900, 40)])
@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_the_deviation_is_that_of_all_scores(n_users, n_items, size, mean):
    rng = np.random.default_rng(0)
    users, items = (torch.from_numpy(rng.normal(mean, 1, (n, size))).float() for n in (n_users, n_items))
    expected = (users.double() @ items.double().T).numpy().std()
    assert score_deviation(users, items) == pytest.approx(expected, rel=1e-9)


def test_by_hand():
    # Scores 1·3, 1·5, 2·3, 2·5: mean 6, squared distances 9, 1, 0, 16.
    users, items = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]])
    assert score_deviation(users, items) == pytest.approx(np.sqrt(26 / 4), rel=1e-12)


def test_equal_scores_do_not_deviate():
    assert score_deviation(torch.full((1000, 3), 0.1), torch.full((70, 3), 0.7)) == 0
    assert score_deviation(torch.zeros(5, 3), torch.zeros(4, 3)) == 0
    # Different vectors, and yet each score is 1.
    assert score_deviation(torch.tensor([[1.0, 5.0], [1.0, 7.0]]), torch.tensor([[1.0, 0.0]])) == 0


def test_same_bits_with_one_and_two_threads(monkeypatch):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    train = random_pairs(1200, 900, 20_000, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    large = [torch.from_numpy(rng.normal(size=(n, 250))).float() for n in (40_000, 3_000)]
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append((*tables(make_world(train, 1200, 900), 40), score_deviation(*large)))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
