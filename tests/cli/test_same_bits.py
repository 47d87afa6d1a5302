"""The same seed gives the same bits on the CPU, however often, with 1 and with 2 threads, in old and new processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_server import Server
from promises import CaseCounter
from toy import random_pairs

MODELS = ("mf", "lightgcn")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough that torch does divide the work, and the SVD is not the exact one of small matrices."""
    path = tmp_path_factory.mktemp("data") / "pairs.csv"
    pairs = random_pairs(1100, 1050, 12_000, np.random.default_rng(0))
    pl.DataFrame({"user": pairs.users, "item": pairs.items}).write_csv(path)
    return path


def train(model: str, data: Path, out: Path, threads: int) -> list[str]:
    """The recipe with an SVD in it, pairs of several kinds and weights."""
    words = ("train", "--data", data, "--out", out, "--model", model, "--recipe", "paper", "--threads", threads)
    training = ("--steps", 10, "--evaluate-every", 5, "--embedding-size", 64, "--rank", 16, "--seeds", "0,5")
    return [str(word) for word in (*words, *training, "--no-baselines")]


def digest(run: Path) -> str:
    """Of the model, the pairs, every user's figures and the history, but for the time it took."""
    found = hashlib.sha256()
    for name in ("model/model.safetensors", "model/pairs.safetensors", "per_user.parquet"):
        found.update((run / name).read_bytes())
    for line in (run / "metrics.jsonl").read_text().splitlines():
        found.update(json.dumps({**json.loads(line), "seconds": None}).encode())
    return found.hexdigest()


NEW_PROCESS = """
import json, sys
from pspns.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["pspns", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


@pytest.fixture(scope="module")
def in_a_new_process(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Model → digest of a run with another hash seed, and with two threads from the first import on."""
    folder = tmp_path_factory.mktemp("new")
    orders = [train(model, data, folder / model, 2) for model in MODELS]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "OMP_NUM_THREADS": "2"}
    words = [sys.executable, "-c", NEW_PROCESS, json.dumps(orders)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {model: digest(folder / model) for model in MODELS}


@pytest.mark.promise("same-bits", cases=10)
@pytest.mark.parametrize("model", MODELS)
def test_ten_runs(
    server: Server, data: Path, in_a_new_process: dict[str, str], tmp_path: Path, model: str, case_counter: CaseCounter
) -> None:
    found = [in_a_new_process[model]]
    case_counter.count()
    for number in range(1, case_counter.planned):
        out, threads = tmp_path / str(number), 1 + number % 2
        job = server.run(*train(model, data, out, threads))
        assert job.wait() == 0, job.text
        assert json.loads((out / "result.json").read_text())["settings"]["run"]["threads"] == threads
        found.append(digest(out))
        case_counter.count()
    assert len(set(found)) == 1


@pytest.mark.parametrize("model", MODELS)
def test_another_seed_gives_others(
    server: Server, data: Path, in_a_new_process: dict[str, str], tmp_path: Path, model: str
) -> None:
    """Or the comparison would say nothing."""
    words = train(model, data, tmp_path / "run", 1)
    words[words.index("0,5")] = "0,6"
    assert server.run(*words).wait() == 0
    assert digest(tmp_path / "run") != in_a_new_process[model]
