"""The search searches, and what it asks for follows from what it is told alone."""

import math
import sys
import warnings

import numpy as np
import optuna
import pytest

from pspns.errors import SettingsError
from pspns.rng import host_stream
from pspns.search_space import Choices, Span
from pspns.tuning.asking import ask

SPACE = {
    "rate": Choices((1e-3, 2e-3, 5e-3)),
    "l2": Span(low=1e-5, high=1e-1, log=True),
    "count": Span(low=1, high=40, whole=True),
}


def quality(values) -> float:
    """Best at rate 0.002, l2 0.001, count 30; everything else costs, each as much at its worst."""
    return -(
        (values["rate"] != 2e-3) + abs(math.log10(values["l2"] / 1e-3)) / 2 + abs(values["count"] - 30) / 30
    )  # fmt: skip


def search(seed: int, n_trials: int, at_once: int, quality=quality) -> list:
    """Trials of a study that is made anew for every round, as `pspns tune` does."""
    finished = []
    while len(finished) < n_trials:
        asked = ask(SPACE, finished, at_once, int(host_stream(seed, f"after {len(finished)}").integers(2**32)))
        finished += [(values, quality(values)) for values in asked]
    return finished


def test_values_are_those_of_the_space():
    asked = [values for values, _ in search(0, 24, 4)]
    assert {values["rate"] for values in asked} <= set(SPACE["rate"].values)
    assert all(1e-5 <= values["l2"] <= 1e-1 for values in asked)
    assert {type(values["count"]) for values in asked} == {int}
    assert [list(values) for values in asked] == [list(SPACE)] * 24
    # On a logarithmic span as many lie below 0.001 as above; on a plain one all but 1 % would lie above.
    many = ask(SPACE, [], 400, 0)
    assert 150 < sum(values["l2"] < 1e-3 for values in many) < 250


def test_it_comes_closer_to_a_known_optimum_than_chance():
    """Over 20 seeds the rebuilt study must do better than random draws, of which each has as many."""
    found, by_chance = [], []
    for seed in range(20):
        found.append(max(value for _, value in search(seed, 40, 4)))
        by_chance.append(max(map(quality, ask(SPACE, [], 40, seed))))  # nothing has finished, so all are random
    assert np.mean(found) > np.mean(by_chance) / 2  # both are negative: at most half as far away
    assert sum(one > other for one, other in zip(found, by_chance, strict=True)) >= 15
    assert len({str(search(seed, 4, 4)) for seed in range(5)}) == 5


def test_what_is_asked_follows_from_what_has_finished():
    whole = search(3, 24, 4)
    # Any round again, from the trials before it: what a resume does.
    for first in range(0, 24, 4):
        again = ask(SPACE, whole[:first], 4, int(host_stream(3, f"after {first}").integers(2**32)))
        assert again == [values for values, _ in whole[first : first + 4]]
    other_values = [(values, -value) for values, value in whole[:20]]
    assert ask(SPACE, other_values, 4, 0) != ask(SPACE, whole[:20], 4, 0)


@pytest.mark.parametrize(("at_once", "n_random"), [(1, 10), (4, 12), (5, 10), (8, 16)])
def test_rounds_are_random_until_ten_have_finished(at_once, n_random):
    """What the first trials are does not depend on how good they were; that of the next does."""
    found = [values for values, _ in search(0, n_random + 1, at_once)]
    turned = [values for values, _ in search(0, n_random + 1, at_once, lambda values: -quality(values))]
    assert found[:n_random] == turned[:n_random]
    assert found[n_random] != turned[n_random]


def test_those_that_follow_what_was_found_keep_apart():
    """Of four asked for at once about three differ; were they asked for without each other, all would be the same."""
    space = {"a": Choices((1, 2, 3)), "b": Choices((1, 2, 4, 8))}
    n_different = []
    for seed in range(20):
        finished = [(values, -abs(values["a"] - 2) - abs(values["b"] - 4)) for values in ask(space, [], 12, seed)]
        n_different.append(len({tuple(values.values()) for values in ask(space, finished, 4, seed + 500)}))
    assert np.mean(n_different) > 2


def test_fewer_asked_are_the_first_of_more():
    finished = search(0, 12, 4)
    assert ask(SPACE, finished, 2, 7) == ask(SPACE, finished, 5, 7)[:2]


def test_it_keeps_away_from_what_failed():
    """The larger the better, but from 0.5 on nothing trains; were failures left out, it would ask for nothing else."""
    space = {"x": Span(low=0.0, high=1.0)}
    finished = [(values, values["x"] if values["x"] < 0.5 else None) for values in ask(space, [], 40, 0)]
    asked = [values["x"] for seed in range(20) for values in ask(space, finished, 1, seed)]
    assert sum(x >= 0.5 for x in asked) <= 2
    assert min(asked) > 0.2


def test_one_value_is_no_search():
    finished = [({"rate": 1e-3}, 0.5)] * 12
    assert ask({"rate": Choices((1e-3,))}, finished, 3, 0) == [{"rate": 1e-3}] * 3
    assert ask({}, [({}, 0.5)] * 12, 2, 0) == [{}, {}]


def test_the_library_says_nothing_and_is_left_as_it_was(capfd):
    before = optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(0, 16, 4)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        SettingsError, match=r"tuning needs optuna, which is not installed; pip install 'pspns\[tune\]'"
    ):
        ask(SPACE, [], 1, 0)
