"""How loops are compiled: by numba, once for each kind of input, on as many threads as torch uses."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
import torch

P = ParamSpec("P")
R = TypeVar("R")

prange = numba.prange
"""A range whose turns may run at the same time: no two of them may write to the same place."""

# Without OpenMP or TBB numba's threads serve one caller at a time, and a second one would end the process.
_one_at_a_time = threading.RLock()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A loop over arrays, compiled when first called and kept on disk for the next process.

    Turns of `prange` run on as many threads as torch has. Sums must not depend on how turns are shared out: give each
    turn whole rows or whole columns.
    """
    loop = _compile(function, parallel=True)

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        with _one_at_a_time:
            numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
            return loop(*arguments, **named)

    return run


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """A loop too short to be shared out, or a part that compiled loops call."""
    return _compile(function, parallel=False)


inlined = on_one_thread


def _compile(function: Callable[P, R], *, parallel: bool) -> Callable[P, R]:
    # A sum may be taken in another order, the same one every time. Not all of fastmath: NaN and −∞ stay what they are.
    options = {"parallel": parallel, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder can be written to: compile in each process anew
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
