"""Other processes at the same files, as copies of the one that tests, and killed at the end of a block."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

import torch


def begun(work: Callable[[], object]) -> BaseProcess:
    """A process of its own at it; what it says is thrown away."""

    def work_alone() -> None:
        torch.set_num_threads(1)  # the threads of this process are not there in a copy of it, which would wait for them
        work()

    process = multiprocessing.get_context("fork").Process(target=work_alone)
    process.start()
    return process


@contextmanager
def at_once(*works: Callable[[], object]) -> Iterator[list[BaseProcess]]:
    processes = [begun(work) for work in works]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()


def wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, "waited a minute in vain"
        time.sleep(0.002)
