"""How far the scores of all users for all items lie apart, without making them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pspns.spectral import gram

# Tables are float32: a deviation this small beside the scores themselves is rounding.
ROUNDING = 1e-5


def score_deviation(users: Tensor, items: Tensor) -> float:
    """The standard deviation of all dot products of `[n_users, size]` and `[n_items, size]`; 0 where all are equal.

    The mean score is mean(u) · mean(i), and the mean of its square is trace(UᵀU IᵀI) / (n_users · n_items): Gram
    matrices in float64, never a table of users × items, and the same bits for any number of threads.
    """
    of_users, of_items = _moments(users), _moments(items)
    # Along the last axis first: a sum over all of a large table would be shared out among threads.
    product = (of_users * of_items).sum(-1)
    mean_square, mean = float(product[:-1].sum()), float(product[-1])
    variance = mean_square - mean**2
    return math.sqrt(variance) if variance > ROUNDING**2 * mean_square else 0.0


def _moments(rows: Tensor) -> Tensor:
    """The means of y yᵀ, `[size, size]`, and below them the mean of y."""
    ones = rows.new_ones(len(rows), 1)
    return gram(torch.cat([rows, ones], dim=1).double())[:, :-1] / len(rows)
