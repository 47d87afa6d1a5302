"""Paired tests: against scipy, against definitions spelled out, and on data whose truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from pspns.errors import SettingsError
from pspns.evaluation.significance import bootstrap_interval, holm, sign_flip_p_value


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def metric_like(n_users: int, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    """Differences as recall gives them: many zeros, few distinct values."""
    rng = generator(seed)
    differences = rng.integers(-2, 3, size=n_users) / rng.integers(1, 6, size=n_users)
    return np.where(rng.random(n_users) < 0.5, 0.0, differences) + shift


class TestSignFlip:
    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("n_users", [2, 5, 9, 12])
    def test_few_users_give_scipys_exact_value(self, seed, n_users):
        differences = generator(seed).normal(0.3, 1, size=n_users).round(1)
        expected = stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=2**n_users, vectorized=True
        )
        assert sign_flip_p_value(differences, rng=generator()) == pytest.approx(expected.pvalue, abs=1e-15)

    def test_ties_count_whatever_the_rounding(self):
        # 0.1 + 0.2 − 0.3 is 5.6e-17 in floating point but zero in truth: every pattern is as extreme.
        assert sign_flip_p_value(np.array([0.1, 0.2, -0.3]), rng=generator()) == 1
        # ±0.3 ±0.1 ±0.2 … whose sum has the size of the observed 0.6: all plus or all minus.
        assert sign_flip_p_value(np.array([0.3, 0.1, 0.2]), rng=generator()) == 2 / 8

    def test_zeros_keep_the_exact_value(self):
        few = np.array([0.5, -0.1, 0.4, 0.3])
        with_zeros = np.concatenate((np.zeros(5000), few))
        # A generator that was never asked shows that all patterns were counted.
        rng = generator()
        assert sign_flip_p_value(with_zeros, rng=rng) == sign_flip_p_value(few, rng=generator())
        assert rng.bit_generator.state == generator().bit_generator.state

    def test_many_users_come_close_to_the_normal_limit(self):
        differences = generator(3).normal(0.02, 1, size=5000)
        z = differences.sum() / np.sqrt((differences**2).sum())  # the flipped sum has this variance exactly
        expected = 2 * stats.norm.sf(abs(z))
        # Five standard errors of 10,000 draws.
        tolerance = 5 * np.sqrt(expected * (1 - expected) / 10_000)
        assert sign_flip_p_value(differences, rng=generator()) == pytest.approx(expected, abs=tolerance)

    def test_the_smallest_value_is_one_of_the_draws_and_the_observed(self):
        assert sign_flip_p_value(np.full(100, 0.1), draws=999, rng=generator()) == 1 / 1000

    def test_blocks_make_up_all_draws(self, monkeypatch):
        # Blocks of 7 draws, the last one shorter: p must have the denominator 5,001 and be near the truth.
        monkeypatch.setattr("pspns.evaluation.significance._BLOCK", 13 * 7)
        differences = generator(5).normal(0.2, 1, size=13)
        exact = stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=2**13, vectorized=True
        ).pvalue
        p = sign_flip_p_value(differences, draws=5000, rng=generator())
        assert p * 5001 == pytest.approx(round(p * 5001), abs=1e-9)
        assert p == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 5000))

    def test_direction_does_not_matter(self):
        differences = metric_like(500, shift=0.02)
        assert sign_flip_p_value(differences, rng=generator()) == sign_flip_p_value(-differences, rng=generator())

    def test_all_zero_gives_1(self):
        assert sign_flip_p_value(np.zeros(50), rng=generator()) == 1


class TestBootstrap:
    @pytest.mark.parametrize("level", [0.9, 0.95])
    def test_many_users_come_close_to_the_normal_limit(self, level):
        differences = metric_like(4000, shift=0.01)
        error = differences.std() / np.sqrt(len(differences))
        z = stats.norm.ppf((1 + level) / 2)
        expected = (differences.mean() - z * error, differences.mean() + z * error)
        # An end is a 5 % or 2.5 % quantile of 20,000 means: its own error is below 0.025 standard errors.
        interval = bootstrap_interval(differences, level=level, draws=20_000, rng=generator())
        assert interval == pytest.approx(expected, abs=0.1 * error)

    def test_skewed_differences_as_by_scipy_and_by_hand(self):
        differences = generator(1).exponential(size=40)
        ours = bootstrap_interval(differences, draws=20_000, rng=generator(1))
        theirs = stats.bootstrap(
            (differences,), np.mean, n_resamples=20_000, method="percentile", rng=generator(2)
        ).confidence_interval
        means = [differences[generator(i).integers(0, 40, size=40)].mean() for i in range(20_000)]
        tolerance = 0.1 * differences.std() / np.sqrt(40)
        assert ours == pytest.approx((theirs.low, theirs.high), abs=tolerance)
        assert ours == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=tolerance)

    def test_blocks_change_nothing(self, monkeypatch):
        differences = metric_like(100)
        expected = bootstrap_interval(differences, rng=generator())
        monkeypatch.setattr("pspns.evaluation.significance._BLOCK", 300)
        assert bootstrap_interval(differences, rng=generator()) == expected

    def test_all_zero_gives_an_interval_of_zero(self):
        assert bootstrap_interval(np.zeros(50), rng=generator()) == (0, 0)


class TestTruthKnown:
    """Simulated comparisons of 200 users, over and over."""

    def test_equal_models_are_told_apart_at_the_promised_rate(self):
        rejected = missed = 0
        for seed in range(400):
            differences = metric_like(200, seed)  # symmetric about zero
            rejected += sign_flip_p_value(differences, draws=500, rng=generator(seed)) <= 0.05
            low, high = bootstrap_interval(differences, draws=500, rng=generator(seed))
            missed += not low <= 0 <= high
        assert 0.02 <= rejected / 400 <= 0.08
        assert 0.02 <= missed / 400 <= 0.08

    def test_a_real_difference_is_found(self):
        for seed in range(20):
            better = metric_like(200, seed, shift=0.3)
            assert sign_flip_p_value(better, draws=999, rng=generator(seed)) <= 0.01
            assert bootstrap_interval(better, rng=generator(seed))[0] > 0
            assert bootstrap_interval(-better, rng=generator(seed))[1] < 0


class TestHolm:
    def test_by_hand(self):
        # Ascending 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, then 0.04 raised to 0.06.
        assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
        assert holm([0.5, 0.9]).tolist() == [1, 1]
        assert holm([0.2]).tolist() == [0.2]
        assert holm([]).tolist() == []

    @pytest.mark.parametrize("seed", range(20))
    def test_rejects_what_the_step_down_rule_rejects(self, seed):
        p_values = generator(seed).random(6).round(2) ** 2  # with ties, now and then
        adjusted = holm(p_values)
        for level in generator(seed + 100).random(50):
            rejected = set()
            for n_left, (p, place) in zip(
                itertools.count(6, -1), sorted((p, place) for place, p in enumerate(p_values)), strict=False
            ):
                if p > level / n_left:
                    break
                rejected.add(place)
            assert {place for place in range(6) if adjusted[place] <= level} == rejected

    @pytest.mark.parametrize("p_values", [[0.1, 1.2], [-0.1], [float("nan")], [[0.1]]])
    def test_what_is_no_p_value_is_refused(self, p_values):
        with pytest.raises(SettingsError, match="from 0 to 1"):
            holm(p_values)


@pytest.mark.parametrize("function", [bootstrap_interval, sign_flip_p_value])
class TestBorder:
    @pytest.mark.parametrize("differences", [np.array([]), np.array([0.1]), np.ones((2, 2))])
    def test_too_few_users_are_refused(self, function, differences):
        with pytest.raises(SettingsError, match="at least 2 users"):
            function(differences, rng=generator())

    def test_a_missing_value_is_refused(self, function):
        with pytest.raises(SettingsError, match="difference 1 is nan"):
            function(np.array([0.1, np.nan, 0.2]), rng=generator())

    def test_no_draws_are_refused(self, function):
        with pytest.raises(SettingsError, match="draws must be at least 1, got 0"):
            function(np.array([0.1, 0.2]), draws=0, rng=generator())

    def test_the_generator_alone_decides(self, function):
        differences = metric_like(300, shift=0.05)
        assert function(differences, rng=generator(7)) == function(differences, rng=generator(7))
        assert function(differences, rng=generator(7)) != function(differences, rng=generator(8))


@pytest.mark.parametrize("level", [0, 1, 95])
def test_impossible_levels_are_refused(level):
    with pytest.raises(SettingsError, match="level must be between 0 and 1"):
        bootstrap_interval(np.array([0.1, 0.2]), level=level, rng=generator())
