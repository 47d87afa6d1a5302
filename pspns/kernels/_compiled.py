"""How loops are compiled: by numba, once for each kind of input, on as many threads as torch uses."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
import torch

P = ParamSpec("P")
R = TypeVar("R")

prange = numba.prange
"""A range whose turns may run at the same time: no two of them may write to the same place."""

# Without OpenMP or TBB numba's threads serve one caller at a time, and a second one would end the process.
_one_at_a_time = threading.RLock()
_threads = threading.local()  # .n: how many numba was last told to use, which it remembers for each caller
_have_run = False  # loops, on several threads perhaps
_is_fork = False  # of a process in which they had

# Numbers that a loop must go through before a second thread is worth waking: that takes up to 0.1 ms.
LEAST_WORK = 1 << 16


def compiled(work: Callable[P, int]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A loop over arrays, compiled when first called and kept on disk for the next process.

    Turns of `prange` run on as many threads as torch has, unless there is little to do: `work` tells from the arguments
    about how many numbers the loop goes through. Sums must not depend on how turns are shared out: give each turn whole
    rows or whole columns.
    """

    def made(function: Callable[P, R]) -> Callable[P, R]:
        loop = _compile(function, parallel=True)
        # Not kept: what is on disk is found by the function's name alone, whatever the options.
        loop_of_forks = numba.njit(**_options(parallel=False))(function)

        @functools.wraps(function)
        def run(*arguments: P.args, **named: P.kwargs) -> R:
            if _is_fork:
                return loop_of_forks(*arguments, **named)  # type: ignore[no-any-return]
            global _have_run
            is_short, _have_run = work(*arguments, **named) < LEAST_WORK, True
            with _one_at_a_time:
                _use_threads(1 if is_short else min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
                return loop(*arguments, **named)

        return run

    return made


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """A loop too short to be shared out, or a part that compiled loops call."""
    return _compile(function, parallel=False)


def _compile(function: Callable[P, R], *, parallel: bool) -> Callable[P, R]:
    options = _options(parallel=parallel)
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder can be written to: compile in each process anew
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


def _options(*, parallel: bool) -> dict[str, Any]:
    # A sum may be taken in another order, the same one every time. Not all of fastmath: NaN and −∞ stay what they are.
    return {"parallel": parallel, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}


def _use_threads(n: int) -> None:
    if getattr(_threads, "n", None) != n:
        of_torch = torch.get_num_threads()
        numba.set_num_threads(n)
        _threads.n = n
        # The first time numba starts its threads, and where both use OpenMP torch then takes as many.
        if torch.get_num_threads() != of_torch:
            torch.set_num_threads(of_torch)


def _begin_as_fork() -> None:
    """The copy of a process has none of its threads, and OpenMP would end it rather than wait for them."""
    global _is_fork, _one_at_a_time
    _is_fork, _one_at_a_time = _have_run, threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_begin_as_fork)
