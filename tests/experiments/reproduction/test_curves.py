"""Curves over the values of a setting."""

import numpy as np
import pytest
from handmade_records import make_record

from pspns.experiments.records import Seen
from pspns.experiments.reproduction._curves import Curve


def seen(test, hits=None, valid=None):
    return Seen("a record", make_record(test, hits=hits, valid=valid))


@pytest.mark.parametrize(
    ("figures", "chosen", "is_best_inside", "shape"),
    [
        ({1: 3.0, 2: 4.0, 3: 3.5}, 2, True, "is best inside the grid"),
        ({1: 3.0, 2: 2.0, 3: 5.0, 4: 4.0}, 3, True, "is best inside the grid"),
        ({1: 3.0, 2: 2.0, 3: 5.0, 4: 4.0}, 2, False, "is best inside the grid on validation, and not on the test"),
        ({1: 3.0, 2: 4.0, 3: 4.0}, 2, False, "is best inside the grid on validation, and not on the test"),
        ({1: 3.0, 2: 2.0, 3: 1.0}, 1, False, "is best at an end of the grid"),
        ({1: 3.0, 2: 4.0, 3: 3.5}, 3, False, "is best at an end of the grid"),
        ({1: 4.0, 2: 4.0, 3: 4.0}, 2, False, "stays the same"),
    ],
)
def test_what_shape_a_curve_has(figures, chosen, is_best_inside, shape):
    curve = Curve(figures, chosen)
    assert (curve.is_best_inside, curve.shape) == (is_best_inside, shape)


def test_validation_chooses_by_the_same_metric_and_the_test_is_shown():
    both = {
        1: ({"recall@20": 0.5, "precision@20": 0.1}, {"recall@20": 0.1, "precision@20": 0.4}),
        2: ({"recall@20": 0.3, "precision@20": 0.2}, {"recall@20": 0.3, "precision@20": 0.3}),
        3: ({"recall@20": 0.2, "precision@20": 0.3}, {"recall@20": 0.3, "precision@20": 0.2}),
    }
    by_value = {value: seen(test, valid=valid) for value, (test, valid) in both.items()}
    # The first of equals; on the test both have other best values.
    assert str(Curve.of(by_value, "recall@20")) == "30.00 at 2, which validation chose; 50.00 at 1; 20.00 at 3"
    assert str(Curve.of(by_value, "precision@20")) == "10.00 at 1, which validation chose; 30.00 at 3"


def test_nothing_is_chosen_without_a_validation():
    assert Curve.of({1: seen(0.2, valid={}), 2: seen(0.3, valid={})}, "recall@20") is None


def test_values_are_put_in_order_and_figures_are_those_of_the_metric():
    records = {
        30: {"recall@20": [0.2, 0.4], "precision@20": [0.1, 0.1]},
        10: {"recall@20": [0.1], "precision@20": [0.5]},
    }
    by_value = {value: seen(test) for value, test in records.items()}
    assert Curve.of(by_value, "recall@20").figures == pytest.approx({10: 10.0, 30: 30.0})
    assert Curve.of(by_value, "precision@20").figures == pytest.approx({10: 50.0, 30: 10.0})
    assert Curve.of(by_value, "recall@20").ends == (10, 30)


def test_without_all_values_there_is_no_curve():
    assert Curve.of({1: seen(0.1), 2: seen(0.3), 3: None}, "recall@20") is None
    assert Curve.of({}, "recall@20") is None


def hits_of(n_users, n_hits):
    """Three hits of so many users, none of the others."""
    return np.repeat([3, 0], [n_hits, n_users - n_hits])


def test_an_end_that_may_be_as_good_is_named():
    few, many = hits_of(200, 40), hits_of(200, 80)
    # One user more is luck; forty are not.
    nearly = hits_of(200, 79)
    by_value = {1: seen(0.2, few), 2: seen(0.4, many), 5: seen(0.395, nearly)}
    curve = Curve.of(by_value, "recall@20")
    assert curve.is_best_inside
    assert curve.p_values[0] < 0.001
    assert curve.luck == "as good may be 5, p = 1.00"
    both = Curve.of({1: seen(0.395, nearly), 2: seen(0.4, many), 5: seen(0.395, nearly)}, "recall@20")
    assert both.luck == "as good may be 1, p = 1.00; 5, p = 1.00"
    clear = Curve.of({1: seen(0.2, few), 2: seen(0.4, many), 5: seen(0.2, few)}, "recall@20")
    assert clear.luck == ""
    assert Curve.of({1: seen(0.4, many), 2: seen(0.395, nearly)}, "recall@20").luck == "", "an end is best"


def test_it_is_the_chosen_value_that_is_tested_against_the_ends():
    few, some, many = (hits_of(200, count) for count in (40, 41, 80))
    by_value = {1: seen(0.2, few), 2: seen(0.205, some, valid=0.9), 3: seen(0.4, many), 4: seen(0.2, few)}
    assert Curve.of(by_value, "recall@20").luck == "as good may be 1, p = 1.00; 4, p = 1.00"


def test_nothing_is_said_of_luck_where_users_or_metric_are_not_known():
    assert Curve.of({1: seen(0.2), 2: seen(0.4), 5: seen(0.3)}, "recall@20").p_values is None
    by_value = {value: seen(test, hits_of(9, 3)) for value, test in ((1, 0.2), (2, 0.4), (3, 0.1))}
    assert Curve.of(by_value, "recall@30").p_values is None
    assert Curve.of(by_value, "precision@20").p_values is not None
    assert Curve.of(by_value, "recall@20").p_values is not None


def test_p_values_are_corrected_for_being_two():
    lower, best = hits_of(200, 40), hits_of(200, 47)
    (one, two) = Curve.of({1: seen(0.2, lower), 2: seen(0.24, best), 3: seen(0.2, lower)}, "recall@20").p_values
    assert one == two == pytest.approx(2 * 2**-6)  # seven users, each a coin toss, two-sided
