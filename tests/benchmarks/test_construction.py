import numpy as np
import pytest

from benchmarks import construction
from benchmarks._generated import tasteful_pairs
from benchmarks.construction import Task, compare, naive, plain, shared
from pspns import spectral

N_USERS, N_ITEMS = 90, 70


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)  # or a world as small as this would not need the start matrix
    train = tasteful_pairs(N_USERS, N_ITEMS, 900)
    return Task("tiny", construction._ground(N_USERS, N_ITEMS, train), 10, 1.7)


def test_all_ways_build_the_same(task):
    ours = task.build()
    assert shared(ours, plain(task)) == 1
    assert shared(ours, naive(task)) > 0.95  # it starts from another matrix
    assert {1, 3} == set(ours[:, 2].tolist())


def test_every_reference_is_checked_and_timed(task):
    found = list(compare(task, pairs=1))
    alone = "product and selection alone"
    assert [timed.reference for timed in found] == ["naive", "plain", alone, alone]
    assert all(timed.ours_seconds > 0 and timed.reference_seconds > 0 for timed in found)


@pytest.mark.parametrize("broken", ["naive", "plain"])
def test_another_answer_is_not_timed(task, monkeypatch, broken):
    monkeypatch.setattr(construction, broken, lambda task: task.build() + np.array([0, 1, 0]))
    with pytest.raises(AssertionError, match=f"ours and {broken} give different answers"):
        list(compare(task, pairs=1))


def test_generated_pairs_are_distinct_and_cover_all():
    pairs = tasteful_pairs(300, 200, 4000)
    assert (np.diff(pairs.users * 200 + pairs.items) > 0).all()
    assert np.unique(pairs.users).size == 300
    assert np.array_equal(np.unique(pairs.items), np.arange(200))
