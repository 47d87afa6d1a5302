"""Compiled loops under conditions of their own: several threads, forked processes, folders that cannot be written."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from pspns.kernels import _compiled, pairs
from pspns.kernels._compiled import LEAST_WORK, compiled, prange


@compiled(lambda values, into: LEAST_WORK)
def doubled(values, into):
    for place in prange(len(values)):
        into[place] = 2 * values[place]


def scores(seed):
    rng = np.random.default_rng(seed)
    users, items = (rng.normal(size=(50, 2, 33)).astype(np.float32) for _ in range(2))
    of_users, positives, negatives = (rng.integers(50, size=(2, 300)) for _ in range(3))
    found = [np.empty((2, 300), dtype=np.float32) for _ in range(3)]
    pairs.score_pairs(users, items, of_users, positives, negatives, *found)
    return np.stack(found)


def test_threads_of_the_caller_do_not_disturb_each_other():
    expected, found = [scores(seed) for seed in range(8)], [None] * 8

    def work(seed):
        for _ in range(20):
            found[seed] = scores(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(one, two) for one, two in zip(found, expected, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_can_go_on():
    expected = scores(3)  # the parent has used threads

    def work(answers):
        answers.send(scores(3))

    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=work, args=(theirs,))
    process.start()
    try:
        assert mine.poll(120), "no answer from the forked process"
        np.testing.assert_allclose(mine.recv(), expected, rtol=1e-5, atol=1e-6)
    finally:
        process.join(10)
    assert process.exitcode == 0


@pytest.mark.parametrize("n_threads", [1, 2])
def test_as_many_threads_as_torch(n_threads, monkeypatch):
    used = []
    monkeypatch.setattr(_compiled, "_use_threads", used.append)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        values, found = np.arange(1000.0), np.empty(1000)
        doubled(values, found)
        scores(0)  # too short for more than one
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found, 2 * values)
    assert used == [min(n_threads, os.cpu_count()), 1]


def test_torch_keeps_its_threads_when_numba_starts():
    script = """
import os
os.environ["NUMBA_NUM_THREADS"] = "2"
import numpy as np, torch
torch.set_num_threads(1)
from pspns.kernels.draws import fill_with_bits
fill_with_bits(np.array([1]), 0, np.empty((1, 10), dtype=np.int64))
print(torch.get_num_threads())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_without_a_folder_to_keep_what_is_compiled(tmp_path):
    script = """
import numba, numpy as np
real = numba.njit
def njit(*arguments, cache=False, **options):
    if cache:
        raise RuntimeError("cannot cache function: no locator available")
    return real(*arguments, **options)
numba.njit = njit
from pspns.kernels._compiled import on_one_thread
@on_one_thread
def add(x, y):
    return x + y
print(add(2, 3))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "5"
