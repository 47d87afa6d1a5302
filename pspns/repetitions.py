"""Which entries of a row have occurred before."""

from __future__ import annotations

import torch
from torch import Tensor


def is_repeated(items: Tensor) -> Tensor:
    """Whether an item has been there before, along the last axis."""
    ordered, order = items.sort(stable=True)
    repeats = torch.zeros_like(items, dtype=torch.bool)
    repeats[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return torch.zeros_like(repeats).scatter(-1, order, repeats)
