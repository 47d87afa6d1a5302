"""Adam on some rows of a table: a row without gradient stays behind, and takes its steps when it is next needed."""

from __future__ import annotations

import numpy as np

from pspns.kernels._compiled import compiled, on_one_thread, prange

BETA_1, BETA_2, EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
# As constants: numba makes float64 of a whole number less a float32, and of all that follows.
REST_1, REST_2 = np.float32(1 - 0.9), np.float32(1 - 0.999)
# Smaller moments move nothing, and a processor takes a hundred times as long to multiply the smallest numbers.
LEAST_MOMENT = np.float32(1e-30)


@on_one_thread
def add_new_rows(numbers, seen_at, now, rows, n_found):  # type: ignore[no-untyped-def]
    """Add every row among `numbers` `[replicas, rows]` to the first `n_found` of `rows`, unless seen now; how many now.

    A row is node · replicas + replica; `seen_at` `[nodes · replicas]` tells when it was last seen.
    """
    n_replicas, n_numbers = numbers.shape
    for replica in range(n_replicas):
        for place in range(n_numbers):
            row = numbers[replica, place] * n_replicas + replica
            if seen_at[row] != now:
                seen_at[row] = now
                rows[n_found] = row
                n_found += 1
    return n_found


@compiled(lambda table, m, v, settled, rows, *_: 2 * len(rows) * table.shape[1])
def catch_up(table, first_moments, second_moments, settled, rows, to_step, step_sizes, root_factors):  # type: ignore[no-untyped-def]
    """Take the steps without gradient that the rows are behind, up to `to_step`."""
    for place in prange(len(rows)):
        number = rows[place]
        row, m, v = table[number], first_moments[number], second_moments[number]
        moves = True
        for step in range(settled[number], to_step):
            for k in range(len(row)):
                m[k] = _not_tiny(BETA_1 * m[k])
                v[k] = _not_tiny(BETA_2 * v[k])
            if moves:
                # Without gradient moves become smaller with every step: one too small to be felt is the last.
                moves = _move(row, m, v, step_sizes[step], root_factors[step])
        settled[number] = to_step


@compiled(lambda table, m, v, settled, gradient, rows, *_: len(rows) * table.shape[1])
def apply_gradients(  # type: ignore[no-untyped-def]
    table, first_moments, second_moments, settled, gradient, rows, to_step, step_sizes, root_factors
):
    """The step to `to_step` of rows that have taken all before it; their gradient is 0 afterwards."""
    step_size, root_factor = step_sizes[to_step - 1], root_factors[to_step - 1]
    for place in prange(len(rows)):
        number = rows[place]
        row, m, v, g = table[number], first_moments[number], second_moments[number], gradient[number]
        for k in range(len(row)):
            m[k] = _not_tiny(BETA_1 * m[k] + REST_1 * g[k])
            v[k] = _not_tiny(BETA_2 * v[k] + REST_2 * g[k] * g[k])
            g[k] = 0
        _move(row, m, v, step_size, root_factor)
        settled[number] = to_step


@on_one_thread
def _move(row, m, v, step_size, root_factor):  # type: ignore[no-untyped-def]
    """Move one row by its moments; did it move?"""
    has_moved = False
    for k in range(len(row)):
        before = row[k]
        row[k] = before - step_size * (m[k] / (np.sqrt(v[k]) * root_factor + EPSILON))
        has_moved |= row[k] != before
    return has_moved


@on_one_thread
def _not_tiny(x):  # type: ignore[no-untyped-def]
    return x if abs(x) >= LEAST_MOMENT else np.float32(0)
