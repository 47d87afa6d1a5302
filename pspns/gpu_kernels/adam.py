"""Adam on the GPU, one Triton kernel for each table (Kingma and Ba 2015).

torch's own gives each multiprocessor 65,536 numbers at once, and the tables of one replica keep few of them busy.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from pspns.shapes import State

NUMBERS_AT_ONCE = 1024
NAMES = "exp_avg", "exp_avg_sq", "step"  # torch's, in a state


class GpuAdam:
    """Adam on one table, which it changes in place."""

    def __init__(self, table: Tensor, learning_rate: float, state: State | None = None):
        """`state` is that of another one, whose table this is now."""
        self._table, self._learning_rate = table.detach(), learning_rate
        self._state = dict(state) if state else {
            "exp_avg": torch.zeros_like(self._table),
            "exp_avg_sq": torch.zeros_like(self._table),
            "step": torch.zeros((), device=table.device),
        }  # fmt: skip

    def apply(self, gradient: Tensor, of_squares: Tensor) -> None:
        """One step by the gradient plus, for each row, `of_squares` `[nodes, replicas]` times twice the row itself."""
        n_rows, size = of_squares.numel(), self._table.shape[2]
        columns = triton.next_power_of_2(size)
        rows = max(1, NUMBERS_AT_ONCE // columns)
        _move[(triton.cdiv(n_rows, rows),)](
            self._table, gradient.contiguous(), of_squares, *(self._state[name] for name in NAMES),
            self._learning_rate, n_rows, size, ROWS=rows, COLUMNS=columns,
        )  # fmt: skip
        self._state["step"] += 1

    def state(self) -> State:
        return self._state


# As constants of the kernel, so that they are not rounded to float32.
_BETA_1, _BETA_2, _EPSILON = tl.constexpr(0.9), tl.constexpr(0.999), tl.constexpr(1e-8)
_LOG_BETA_1, _LOG_BETA_2 = tl.constexpr(math.log(0.9)), tl.constexpr(math.log(0.999))


@triton.jit  # type: ignore[untyped-decorator]
def _move(  # type: ignore[no-untyped-def]
    table, gradient, of_squares, first_moments, second_moments, steps_before, learning_rate, n_rows, size,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A few rows."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    is_row = rows < n_rows
    is_number = is_row[:, None] & (columns < size)[None, :]
    numbers = rows.to(tl.int64)[:, None] * size + columns[None, :]
    step = tl.load(steps_before).to(tl.float64) + 1
    # In float64: 1 − β₂ᵗ is small in the first steps, and would lose half of its digits.
    step_size = (learning_rate / (1 - tl.exp(step * _LOG_BETA_1))).to(tl.float32)
    root_factor = (1 / tl.sqrt(1 - tl.exp(step * _LOG_BETA_2))).to(tl.float32)
    x = tl.load(table + numbers, mask=is_number)
    g = tl.load(gradient + numbers, mask=is_number)
    g += 2 * tl.load(of_squares + rows, mask=is_row)[:, None] * x
    m = tl.load(first_moments + numbers, mask=is_number)
    v = tl.load(second_moments + numbers, mask=is_number)
    m = _BETA_1 * m + (1 - _BETA_1) * g
    v = _BETA_2 * v + (1 - _BETA_2) * g * g
    tl.store(first_moments + numbers, m, mask=is_number)
    tl.store(second_moments + numbers, v, mask=is_number)
    tl.store(table + numbers, x - step_size * (m / (tl.sqrt(v) * root_factor + _EPSILON)), mask=is_number)
