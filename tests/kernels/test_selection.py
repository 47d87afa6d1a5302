from itertools import pairwise

import numpy as np
import pytest
import torch
from toy import best_by_sorting

from pspns.kernels.selection import best_by_number, best_first


def first(scores, k, known=None):
    """`known`: for each row the columns that are left out."""
    known = known or [[]] * len(scores)
    starts = np.cumsum([0, *map(len, known)])
    items, values = np.full((len(scores), k), 99), np.full((len(scores), k), 99, dtype=np.float32)
    known_items = np.array([item for row in known for item in row], dtype=np.int64)
    best_first(scores, starts, known_items, np.arange(len(scores)), items, values)
    return items.tolist(), values


def by_number(scores, counts):
    starts = np.cumsum([0, *counts])
    items = np.full(starts[-1], 99)
    best_by_number(scores, starts, items)
    return [items[start:end].tolist() for start, end in pairwise(starts)]


def generated(kind, n_rows, n_items, rng):
    scores = rng.normal(size=(n_rows, n_items)).astype(np.float32)
    match kind:
        case "spread":
            return scores
        case "rising":
            return np.sort(scores)
        case "falling":
            return np.ascontiguousarray(np.sort(scores)[:, ::-1])
        case "few values":
            return np.round(scores)
        case "all equal":
            return np.full_like(scores, -0.25)
        case "mostly left out":
            return np.where(rng.random(scores.shape) < 0.98, -np.inf, scores).astype(np.float32)
        case "tiny":  # subnormal numbers, and zeros of both signs
            return (np.round(scores) * np.float32(1e-45)).astype(np.float32)
        case "huge":
            return np.where(rng.random(scores.shape) < 0.1, np.inf, scores * 3e37).astype(np.float32)
    raise AssertionError(kind)


KINDS = ("spread", "rising", "falling", "few values", "all equal", "mostly left out", "tiny", "huge")
# 1,500 columns for 20 are enough for the bound from groups; 40 and a k of 400 are not.
SHAPES = [(1, 1, 1), (9, 40, 7), (17, 1500, 20), (17, 1500, 1), (8, 1501, 400), (3, 30, 30), (3, 30, 45)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_sorting_the_row(kind, shape):
    n_rows, n_items, k = shape
    scores = generated(kind, n_rows, n_items, np.random.default_rng(0))
    expected = best_by_sorting(scores, k)
    items, values = first(scores, k)
    assert items == expected
    padded = np.concatenate((scores, np.full((n_rows, 1), -np.inf, dtype=np.float32)), axis=1)
    assert np.array_equal(values, np.take_along_axis(padded, np.array(expected), axis=1))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mostly left out"])
def test_each_row_has_a_number_of_its_own(kind):
    rng = np.random.default_rng(1)
    scores = generated(kind, 60, 1500, rng)
    counts = rng.choice([0, 1, 2, 20, 93, 94, 400, 1499, 1500], size=60)
    expected = [sorted(best[:count]) for best, count in zip(best_by_sorting(scores, 1500), counts, strict=True)]
    assert by_number(scores, counts) == expected


def test_known_items_are_left_out_and_the_scores_stay_as_they_were():
    rng = np.random.default_rng(2)
    scores = generated("few values", 20, 300, rng)
    known = [rng.choice(300, size=n, replace=False).tolist() for n in rng.integers(0, 301, size=20)]
    known[3], known[4] = list(range(300)), []
    masked = scores.copy()
    for row, columns in zip(masked, known, strict=True):
        row[columns] = -np.inf
    before = scores.copy()
    assert first(scores, 15, known)[0] == best_by_sorting(masked, 15)
    assert np.array_equal(scores, before)


def test_rows_belong_to_users():
    scores = np.array([[3, 2, 1], [3, 2, 1]], dtype=np.float32)
    items, values = np.empty((2, 1), dtype=np.int64), np.empty((2, 1), dtype=np.float32)
    # User 0 knows nothing, user 1 item 0, user 2 items 0 and 1.
    best_first(scores, np.array([0, 0, 1, 3]), np.array([0, 0, 1]), np.array([2, 0]), items, values)
    assert items.tolist() == [[2], [0]]


def test_zeros_of_both_signs_tie():
    scores = np.array([[-0.0, 0.0, -1.0, 0.0, -0.0]], dtype=np.float32)
    assert first(scores, 4)[0] == [[0, 1, 3, 4]]
    assert by_number(scores, [2]) == [[0, 1]]


def test_nan_comes_before_all_numbers_whatever_its_sign_as_for_torch():
    nan = np.array([0x7FC00000, 0xFFC00000, 0x7F800001], dtype=np.uint32).view(np.float32)
    assert np.isnan(nan).all()
    scores = np.array([[1.0, nan[0], np.inf, nan[1], -np.inf, nan[2]]], dtype=np.float32)
    items, values = first(scores, 6)
    assert items == [[1, 3, 5, 2, 0, -1]]
    assert np.array_equal(values, np.array([[np.nan, np.nan, np.nan, np.inf, 1, -np.inf]]), equal_nan=True)
    assert torch.from_numpy(scores).topk(3).values.isnan().all()


def test_the_number_of_threads_changes_nothing():
    scores = generated("few values", 200, 700, np.random.default_rng(3))
    n_threads, found = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            found.append((*first(scores, 25), by_number(scores, np.arange(200))))
    finally:
        torch.set_num_threads(n_threads)
    (items, values, lists), (items_2, values_2, lists_2) = found
    assert items == items_2
    assert values.tobytes() == values_2.tobytes()
    assert lists == lists_2


def test_no_rows():
    assert first(np.empty((0, 5), dtype=np.float32), 3)[0] == []
    assert by_number(np.empty((0, 5), dtype=np.float32), []) == []
