"""Which entries of a row have occurred before."""

import numpy as np
import pytest
import torch

from pspns.repetitions import is_repeated


def by_looking_back(rows: np.ndarray) -> list[list[bool]]:
    return [[value in row[:place] for place, value in enumerate(row)] for row in rows.tolist()]


def test_three_rows_by_hand():
    rows = torch.tensor([[4, 4, 4, 1], [1, 2, 3, 4], [2, -1, 2, -1]])
    assert is_repeated(rows).tolist() == [
        [False, True, True, False],
        [False, False, False, False],
        [False, False, True, True],
    ]


@pytest.mark.parametrize("n_values", [1, 5, 40, 10_000])
def test_as_by_looking_back(n_values):
    rows = np.random.default_rng(n_values).integers(n_values, size=(7, 64))
    assert is_repeated(torch.from_numpy(rows)).tolist() == by_looking_back(rows)


def test_along_the_last_of_several_axes():
    rows = np.random.default_rng(0).integers(6, size=(3, 5, 8))
    found = is_repeated(torch.from_numpy(rows))
    assert found.flatten(0, 1).tolist() == by_looking_back(rows.reshape(15, 8))


@pytest.mark.parametrize("n", [0, 1])
def test_a_row_too_short_to_repeat_anything(n):
    found = is_repeated(torch.zeros(4, n, dtype=torch.int64))
    assert found.shape == (4, n)
    assert found.dtype == torch.bool
    assert not found.any()
