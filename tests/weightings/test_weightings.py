"""Every weighting against the contract, and each formula against numbers worked by hand."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from pspns.components import find_part, part_names
from pspns.errors import SettingsError
from pspns.weightings.capped import CappedWeighting
from pspns.weightings.equal_users import EqualUsersWeighting
from pspns.weightings.exponential import ExponentialWeighting
from pspns.weightings.inverse_sqrt import InverseSqrtWeighting
from pspns.weightings.log import LogWeighting
from pspns.weightings.none import NoWeighting

SENSITIVITIES = [1e-6, 1e-3, 0.01, 1.0, 30.0, 1e6]
DEGREES = np.unique(np.concatenate([np.arange(1, 300), np.geomspace(300, 1e9, 400).astype(np.int64)]))


def with_sensitivity(name: str, sensitivity: float):
    part = find_part("weightings", name)
    return part() if name in ("none", "equal-users") else part(sensitivity=sensitivity)


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
@pytest.mark.parametrize("name", part_names("weightings"))
class TestContract:
    def test_finite_numbers_that_never_rise_with_activity(self, name, sensitivity):
        weights = with_sensitivity(name, sensitivity).weights(DEGREES)
        assert weights.dtype == np.float32
        assert weights.shape == DEGREES.shape
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert (np.diff(weights) <= 0).all()

    def test_users_without_pairs_weigh_nothing_and_change_nothing_for_others(self, name, sensitivity):
        part = with_sensitivity(name, sensitivity)
        weights = part.weights(np.array([0, 1, 0, 50, 0]))
        assert weights[[0, 2, 4]].tolist() == [0, 0, 0]
        assert weights[[1, 3]].tolist() == part.weights(np.array([1, 50])).tolist()


def test_all_weightings_of_the_paper_are_there():
    assert {"capped", "exponential", "inverse-sqrt", "log", "none"} <= set(part_names("weightings"))


@pytest.mark.parametrize(
    ("weighting", "degree", "expected"),
    [
        (NoWeighting(), 7, 1),
        (LogWeighting(sensitivity=1.0), 1, 1 / math.log(2)),
        (LogWeighting(sensitivity=0.01), 100, 1.442695),  # 1 / ln 2
        (LogWeighting(sensitivity=0.5), 6, 0.721348),  # 1 / ln 4
        (InverseSqrtWeighting(sensitivity=0.5), 6, 0.5),  # 1 / √4
        (InverseSqrtWeighting(sensitivity=0.01), 800, 1 / 3),  # 1 / √9
        (ExponentialWeighting(sensitivity=0.01), 100, 0.367879),  # 1 / e
        (ExponentialWeighting(sensitivity=1.0), 10, 4.53999e-5),
        (CappedWeighting(sensitivity=0.01), 99, 1),
        (CappedWeighting(sensitivity=0.01), 100, 1),
        (CappedWeighting(sensitivity=0.01), 400, 0.25),
    ],
)
def test_values_worked_by_hand(weighting, degree, expected):
    assert weighting.weights(np.array([degree]))[0] == pytest.approx(expected, rel=1e-5)


def test_equal_users_all_add_up_to_the_same_and_a_pair_weighs_1_on_average():
    n_pairs = np.array([1, 0, 2, 5, 4])
    weights = EqualUsersWeighting().weights(n_pairs)
    assert weights.tolist() == pytest.approx([3, 0, 1.5, 0.6, 0.75])
    assert (weights * n_pairs)[n_pairs > 0].tolist() == pytest.approx([3, 3, 3, 3])
    assert np.average(weights, weights=n_pairs) == pytest.approx(1)
    assert EqualUsersWeighting().weights(np.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("activity", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 1e-18, 1e-30])
def test_log_keeps_its_digits_where_one_plus_a_d_would_lose_them(activity):
    with localcontext() as context:
        context.prec = 60
        expected = float(1 / (1 + Decimal(activity)).ln())
    found = LogWeighting(sensitivity=activity).weights(np.array([1]))[0]
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sensitivity", [1e-40, 1e-300])
@pytest.mark.parametrize("name", part_names("weightings"))
def test_weights_stay_numbers_for_the_tiniest_sensitivities(name, sensitivity):
    weights = with_sensitivity(name, sensitivity).weights(np.array([0, 1, 10**9]))
    assert np.isfinite(weights).all()
    assert weights[0] == 0
    assert (weights[1:] > 0).all()


@pytest.mark.parametrize("sensitivity", [0, -1, math.inf, math.nan])
@pytest.mark.parametrize("name", sorted(set(part_names("weightings")) - {"none", "equal-users"}))
def test_a_sensitivity_that_makes_no_sense_is_refused(name, sensitivity):
    with pytest.raises(SettingsError, match=r"^sensitivity must be a finite number above 0, got"):
        with_sensitivity(name, sensitivity)
