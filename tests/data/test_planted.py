"""Planted worlds: known truth, a known share of false pairs, and structure to find, or none."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import svds

from pspns.data.planted import Kind, PlantedWorld, _draw, plant
from pspns.errors import DataError, SettingsError

KINDS = get_args(Kind)


@cache
def world(kind: Kind = "low-rank", seed: int = 0, **options: Any) -> PlantedWorld:
    return plant(kind, **({"n_users": 600, "n_items": 500} | options), rng=np.random.default_rng(seed))


def observed_ids(planted: PlantedWorld) -> tuple[np.ndarray, np.ndarray]:
    pairs = planted.interactions
    return pairs.user_ids[pairs.users], pairs.item_ids[pairs.items]


def observed_matrix(planted: PlantedWorld) -> np.ndarray:
    seen = np.zeros(planted.preferences.shape, dtype=bool)
    seen[observed_ids(planted)] = True
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_marked_pairs_are_false_and_the_others_are_preferences(kind: Kind) -> None:
    planted = world(kind)
    likes = planted.preferences.toarray()
    assert likes.dtype == bool
    assert (likes[observed_ids(planted)] == ~planted.is_false).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.35, 0.9])
def test_share_of_false_pairs_is_exact_up_to_one_pair(kind: Kind, share: float) -> None:
    planted = world(kind, false_positive_share=share)
    n_pairs = len(planted.interactions)
    assert n_pairs > 5000
    assert abs(planted.is_false.sum() - share * n_pairs) <= 1
    assert planted.accuracy(*observed_ids(planted)) == pytest.approx(1 - planted.is_false.mean())


@settings(max_examples=60, deadline=None)
@given(
    n_users=st.integers(1, 12),
    n_items=st.integers(2, 12),
    means=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)),
    share=st.one_of(st.floats(0, 0.99), st.sampled_from([0.1, 0.2, 0.25, 0.5, 0.8])),
    seed=st.integers(0, 9),
)
def test_share_stays_exact_where_items_run_out(
    n_users: int, n_items: int, means: tuple[float, float], share: float, seed: int
) -> None:
    planted = plant(
        "unstructured",
        n_users=n_users,
        n_items=n_items,
        rng=np.random.default_rng(seed),
        mean_preferences=means[0] * n_items,
        mean_interactions=means[1] * n_items,
        false_positive_share=share,
    )
    assert abs(planted.is_false.sum() - share * len(planted.interactions)) <= 1
    assert set(planted.interactions.user_ids.tolist()) == set(range(n_users)), "everyone does something"


def test_sizes_follow_the_means_and_are_heavy_tailed() -> None:
    planted = world(n_items=2000, mean_preferences=80.0, mean_interactions=30.0)
    n_liked = planted.preferences.sum(axis=1)
    n_done = np.bincount(observed_ids(planted)[0], minlength=600)
    assert n_liked.mean() == pytest.approx(80, rel=0.02)
    assert n_done.mean() == pytest.approx(30, rel=0.02)
    for sizes in (n_liked, n_done):
        assert sizes.max() > 5 * sizes.mean()
        assert np.median(sizes) < 0.75 * sizes.mean()  # log-normal: e^-0.5 of the mean
    assert np.corrcoef(n_liked, n_done)[0, 1] > 0.9, "users who like more do more"


def test_same_generator_same_world() -> None:
    first, again, other = (
        plant("clustered", n_users=30, n_items=90, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(observed_matrix(first), observed_matrix(again))
    assert np.array_equal(first.preferences.toarray(), again.preferences.toarray())
    assert np.array_equal(first.is_false, again.is_false)
    assert not np.array_equal(observed_matrix(first), observed_matrix(other))


def top_tenth_share(planted: PlantedWorld, pairs: np.ndarray) -> float:
    popularity = np.sort(np.bincount(observed_ids(planted)[1][pairs], minlength=500))
    return popularity[-50:].sum() / popularity.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_observation_is_skewed_by_popularity_and_truth_is_not(kind: Kind) -> None:
    skewed, flat = world(kind), world(kind, popularity_skew=0.0)
    for which in (lambda w: w.is_false, lambda w: ~w.is_false):
        assert top_tenth_share(skewed, which(skewed)) > top_tenth_share(flat, which(flat)) + 0.15
    exposure = np.bincount(observed_ids(skewed)[1][skewed.is_false], minlength=500)
    liked_by = skewed.preferences.sum(axis=0)
    # A correlation of 500 unrelated pairs has a standard deviation of 0.045.
    assert abs(np.corrcoef(exposure, liked_by)[0, 1]) < 0.2


def precisions(planted: PlantedWorld, rank: int = 10, k: int = 10) -> tuple[float, float, float]:
    """Share of true preferences among the k best unobserved items: by SVD, by popularity, by chance."""
    likes, seen = planted.preferences.toarray(), observed_matrix(planted)
    popularity = seen.sum(axis=0)
    # Normalised by degree, as spectral methods do, or the first factors only say what is popular.
    scaled = seen / np.sqrt(np.maximum(seen.sum(axis=1, keepdims=True), 1) * np.maximum(popularity, 1))
    U, S, V = svds(sparse.csr_array(scaled), k=rank, rng=np.random.default_rng(0))

    def precision(scores: np.ndarray) -> float:
        best = np.argsort(np.where(seen, np.inf, -scores), axis=1, kind="stable")[:, :k]
        return float(np.take_along_axis(likes, best, axis=1).mean())

    chance = (likes & ~seen).sum() / (~seen).sum()
    return precision(U * S @ V), precision(np.broadcast_to(popularity, seen.shape)), float(chance)


@pytest.mark.parametrize("kind", ["low-rank", "clustered"])
@pytest.mark.parametrize("popularity_skew", [0.0, 1.0])
def test_structure_can_be_learned(kind: Kind, popularity_skew: float) -> None:
    by_svd, by_popularity, by_chance = precisions(world(kind, popularity_skew=popularity_skew))
    assert by_svd > 2 * by_popularity
    assert by_svd > 2 * by_chance


def test_without_structure_nothing_is_learned() -> None:
    # 6,000 places at a chance of about 12 %: a standard deviation of 0.4 %; 2 × chance is 28 of them away.
    by_svd, by_popularity, by_chance = precisions(world("unstructured", popularity_skew=0.0))
    tolerance = 5 * (by_chance * (1 - by_chance) / 6000) ** 0.5
    assert by_svd == pytest.approx(by_chance, abs=tolerance)
    assert by_popularity == pytest.approx(by_chance, abs=tolerance)
    by_svd, _, by_chance = precisions(world("unstructured", popularity_skew=1.0))
    assert by_svd < by_chance + tolerance


def test_draws_are_weighted_and_without_replacement() -> None:
    # Two of three with weights 3 : 2 : 1. By hand: 0 is missing with (2/6)(1/4) + (1/6)(2/5) = 0.15,
    # 1 with (3/6)(1/3) + (1/6)(3/5) = 0.2667, 2 with the rest, 0.5833.
    n_draws = 20_000
    log_weights = np.tile(np.append(np.log([3.0, 2.0, 1.0]), -np.inf), (n_draws, 1))
    drawn = _draw(log_weights, np.full(n_draws, 2), np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 2).all()
    assert (~drawn).mean(axis=0) == pytest.approx([0.15, 0.2667, 0.5833, 1.0], abs=0.02)


def test_each_row_draws_its_own_count() -> None:
    drawn = _draw(np.zeros((4, 5)), np.array([0, 1, 5, 3]), np.random.default_rng(0))
    assert drawn.sum(axis=1).tolist() == [0, 1, 5, 3]


class TestJudging:
    """One user likes items 0 and 1, the other item 2; 3 × 2 worlds are worked by hand."""

    planted = PlantedWorld(
        interactions=world(n_users=2, n_items=3, mean_preferences=2, mean_interactions=1).interactions,
        preferences=sparse.csr_array(np.array([[True, True, False], [False, False, True]])),
        is_false=np.zeros(0, dtype=bool),
    )

    def test_accuracy_is_the_share_of_true_pairs(self) -> None:
        assert self.planted.accuracy([0, 0, 1, 1], [0, 2, 0, 2]) == 0.5

    def test_accuracy_counts_copies(self) -> None:
        assert self.planted.accuracy([0, 0], [0, 2], copies=[3, 1]) == 0.75

    def test_coverage_counts_a_preference_once(self) -> None:
        assert self.planted.coverage([0, 0, 1, 0], [1, 1, 0, 2]) == pytest.approx(1 / 3)
        assert self.planted.coverage([1, 0, 0], [2, 1, 0]) == 1.0
        assert self.planted.coverage([], []) == 0.0

    def test_coverage_by_weight(self) -> None:
        """Of the three preferences, one half, one wholly; the pair of no preference adds nothing."""
        assert self.planted.coverage([0, 1, 0], [1, 2, 2], [0.5, 7.0, 1.0]) == pytest.approx(1.5 / 3)

    @pytest.mark.parametrize("kind", KINDS)
    def test_both_agree_with_sets(self, kind: Kind) -> None:
        planted = world(kind)
        rng = np.random.default_rng(0)
        users, items = rng.integers(600, size=5000), rng.integers(500, size=5000)
        true = set(zip(*(axis.tolist() for axis in planted.preferences.nonzero()), strict=True))
        pairs = list(zip(users.tolist(), items.tolist(), strict=True))
        assert planted.accuracy(users, items) == pytest.approx(sum(pair in true for pair in pairs) / 5000)
        assert planted.coverage(users, items) == pytest.approx(len(true & set(pairs)) / len(true))

    @pytest.mark.parametrize(("users", "items"), [([2], [0]), ([0], [3]), ([0], [-1]), ([0.5], [0]), (["a"], [0])])
    def test_ids_from_elsewhere_are_an_error(self, users: list[Any], items: list[Any]) -> None:
        with pytest.raises(DataError, match="ids of this world are the whole numbers 0 to"):
            self.planted.coverage(users, items)

    def test_no_pairs_have_no_accuracy(self) -> None:
        with pytest.raises(DataError, match="no pairs"):
            self.planted.accuracy([], [])

    def test_lengths_must_agree(self) -> None:
        with pytest.raises(DataError, match="1 users but 2 items"):
            self.planted.coverage([0], [0, 1])
        with pytest.raises(DataError, match="1 copies for 2 pairs"):
            self.planted.accuracy([0, 0], [0, 1], copies=[1])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("n_users", 0),
        ("n_items", 1),
        ("mean_preferences", 0.0),
        ("mean_interactions", 1000.0),
        ("false_positive_share", 1.0),
        ("popularity_skew", -1.0),
    ],
)
def test_impossible_settings_are_refused_by_name(option: str, value: float) -> None:
    with pytest.raises(SettingsError, match=option):
        world(**{option: value})


def test_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="did you mean 'clustered'"):
        world("clusterd")  # type: ignore[arg-type]
