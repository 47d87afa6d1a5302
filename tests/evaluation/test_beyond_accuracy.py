"""Coverage and popularity of lists, against sets and loops in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pspns.evaluation.beyond_accuracy import item_coverage, mean_popularity

N_ITEMS = 300


@pytest.fixture(scope="module")
def lists() -> Tensor:
    """Lists of distinct items, of 0 to 10 of them, `[users, 10]`; items above 250 are never recommended."""
    rng = torch.Generator().manual_seed(0)
    items = torch.stack([torch.randperm(250, generator=rng)[:10] for _ in range(40)])
    lengths = torch.arange(40) % 11
    return items.where(torch.arange(10) < lengths[:, None], -1)


def test_coverage_counts_distinct_items(lists):
    distinct = {item for row in lists.tolist() for item in row} - {-1}
    assert 0 < len(distinct) < 250
    assert item_coverage(lists, N_ITEMS) == len(distinct) / N_ITEMS


def test_coverage_ends():
    assert item_coverage(torch.tensor([[0, 1], [2, 1]]), n_items=3) == 1
    # The last item is recommended nowhere: −1 must not be taken for it.
    assert item_coverage(torch.tensor([[-1, -1]]), n_items=3) == 0


def test_popularity_is_a_mean_of_means(lists):
    train_counts = torch.randint(0, 1000, (N_ITEMS,), generator=torch.Generator().manual_seed(1))
    rows = [[item for item in row if item >= 0] for row in lists.tolist()]
    means = [sum(int(train_counts[item]) for item in row) / len(row) for row in rows if row]
    assert len(means) < len(rows)  # some lists are empty and must not count
    assert mean_popularity(lists, train_counts) == pytest.approx(sum(means) / len(means), rel=1e-12)


def test_popularity_of_nothing_is_not_a_number():
    assert math.isnan(mean_popularity(torch.full((2, 3), -1), torch.tensor([5, 6])))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu(lists):
    train_counts = torch.arange(N_ITEMS)
    assert item_coverage(lists.cuda(), N_ITEMS) == item_coverage(lists, N_ITEMS)
    assert mean_popularity(lists.cuda(), train_counts.cuda()) == pytest.approx(
        mean_popularity(lists, train_counts), rel=1e-12
    )
