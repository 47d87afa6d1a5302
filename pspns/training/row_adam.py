"""Adam on the CPU for tables of which a step needs only some rows (Kingma and Ba 2015)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pspns.kernels import adam
from pspns.shapes import State

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class RowAdam:
    """Adam on one `[nodes, replicas, size]` table, which it changes in place.

    Adam moves every row at every step, also one without gradient, by what is left of its moments. Here such a row stays
    behind, and takes all those steps, one by one, before it is next read: the same numbers, without going through the
    whole table at every step.
    """

    def __init__(self, table: Tensor, learning_rate: float, state: State | None = None):
        """`state` is that of another one, whose table this is now."""
        self._shape = table.shape
        self._learning_rate = learning_rate
        state = state or {"exp_avg": torch.zeros_like(table), "exp_avg_sq": torch.zeros_like(table)}
        self._table, self._first_moments, self._second_moments = (  # [nodes · replicas, size]
            tensor.detach().contiguous().flatten(0, 1).numpy()
            for tensor in (table, state["exp_avg"], state["exp_avg_sq"])
        )
        self.step = int(state.get("step", 0))
        """Steps taken so far."""
        self.gradient = torch.zeros_like(table)
        """To be added to; 0 after a step that used it."""
        n_rows = len(self._table)
        self.everyone: Rows = np.arange(n_rows)
        self._settled = np.full(n_rows, self.step)  # steps each row has taken
        self._seen_at = np.full(n_rows, -1)
        self._step_sizes, self._root_factors = _factors(2 * self.step + 1000, learning_rate)

    def rows_of(self, *numbers: Tensor) -> Rows:
        """Each row among the `[replicas, rows]` numbers of nodes, once, rising; to be asked once a step."""
        found, n_found = np.empty(sum(of_nodes.numel() for of_nodes in numbers), dtype=np.int64), 0
        for of_nodes in numbers:
            n_found = adam.add_new_rows(of_nodes.numpy(), self._seen_at, self.step, found, n_found)
        # In order, so that memory is read ahead: that saves a third of Adam's time.
        return np.sort(found[:n_found])

    def settle(self, rows: Rows) -> None:
        """Let these rows take the steps they are behind."""
        adam.catch_up(*self._by_row(), rows, self.step, self._step_sizes, self._root_factors)

    def apply(self, rows: Rows, gradient: Tensor) -> None:
        """One step of these rows, which must be settled; their gradient is 0 afterwards."""
        self.step += 1
        if self.step > len(self._step_sizes):
            self._step_sizes, self._root_factors = _factors(2 * self.step, self._learning_rate)
        by_row = gradient.flatten(0, 1).numpy()
        adam.apply_gradients(*self._by_row(), by_row, rows, self.step, self._step_sizes, self._root_factors)

    def state(self) -> State:
        """Under torch's names; all rows must be settled."""
        return {
            "exp_avg": torch.from_numpy(self._first_moments).view(self._shape),
            "exp_avg_sq": torch.from_numpy(self._second_moments).view(self._shape),
            "step": torch.tensor(float(self.step)),
        }

    def _by_row(self) -> tuple[Floats, Floats, Floats, Rows]:
        return self._table, self._first_moments, self._second_moments, self._settled


def _factors(n_steps: int, learning_rate: float) -> tuple[Floats, Floats]:
    """Of steps 1 … n: rate / (1 − β₁ᵗ), and 1 / √(1 − β₂ᵗ), which correct for moments that began at 0."""
    steps = np.arange(1, n_steps + 1)
    step_sizes = learning_rate / (1 - float(adam.BETA_1) ** steps)
    root_factors = 1 / np.sqrt(1 - float(adam.BETA_2) ** steps)
    return step_sizes.astype(np.float32), root_factors.astype(np.float32)
