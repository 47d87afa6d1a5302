"""`pspns train`, killed, interrupted and resumed: the end is the same to the bit, whatever happened on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

# Imports what a run needs once, and then forks a process for every command: starting an interpreter with torch takes
# seconds, and here are some forty commands. `delays` makes functions slow, so that a signal finds them at work.
SERVER = """
import functools, importlib, json, os, sys, time
import torch, torch._dynamo
import pspns.cli.app, pspns.cli.train
from pspns.cli import main

def delay(name, seconds):
    module, _, function = name.rpartition(".")
    module = importlib.import_module(module)
    real = getattr(module, function)
    @functools.wraps(real)
    def slow(*arguments, **options):
        os.write(2, f"waiting in {name}\\n".encode())
        time.sleep(seconds)
        return real(*arguments, **options)
    setattr(module, function, slow)

def work(words, log, delays):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    for name, seconds in delays.items():
        delay(name, seconds)
    sys.argv = ["pspns", *words]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            code = 70
            try:
                code = work(**order)
            finally:
                sys.stdout.flush()
                os._exit(code)
    print(answer, flush=True)
"""


Words = tuple[object, ...]


@dataclass
class Server:
    process: subprocess.Popen[str]
    folder: Path
    jobs: list[Job] = field(default_factory=list)

    def ask(self, **order: Any) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, *words: object, delays: dict[str, float] | None = None) -> Job:
        log = self.folder / f"{len(self.jobs)}.log"
        log.touch()
        self.jobs.append(Job(self, self.ask(words=[*map(str, words)], log=str(log), delays=delays or {}), log))
        return self.jobs[-1]

    def run(self, *words: object) -> Job:
        job = self.start(*words)
        job.wait()
        return job


@dataclass
class Job:
    server: Server
    pid: int
    log: Path
    code: int | None = None

    def wait(self) -> int:
        """The exit code; minus the signal that killed it."""
        if self.code is None:
            self.code = self.server.ask(wait=self.pid)
        return self.code

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.text, lambda: self.text)

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def last_line(self) -> str:
        return self.text.splitlines()[-1]


def wait_until(is_true: Callable[[], bool], describe: Callable[[], str]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, f"waited a minute in vain: {describe()}"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = Server(process, tmp_path_factory.mktemp("logs"))
        yield server
        for job in server.jobs:
            if job.code is None:  # left by a test that failed
                job.send(signal.SIGKILL)
        assert process.stdin
        process.stdin.close()


def train(data: Path, folder: Path) -> Words:
    """A training in which replicas stop at different times, if nobody stops it before."""
    places = ("train", "--data", data, "--out", folder / "run", "--no-baselines", "--threads", 1)
    training = ("--seeds", "0-2", "--batch-size", 64, "--embedding-size", 16, "--learning-rate", 0.003)
    return (
        *places,
        *training,
        "--evaluate-every",
        20,
        "--max-steps",
        1200,
        "--patience",
        15,
        "--checkpoint-seconds",
        0,
    )


@pytest.fixture
def words(clicks_file: Path, tmp_path: Path) -> Words:
    return train(clicks_file, tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    job = server.run(*train(clicks_file, folder))
    assert job.wait() == 0, job.text
    return folder / "run"


def assert_same(found: Path, expected: Path) -> None:
    """Files of two runs, but for the time they took."""
    for name in ("model/model.safetensors", "model/pairs.safetensors", "per_user.parquet"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    lines = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (found, expected)]
    histories = [[{**json.loads(line), "seconds": None} for line in one] for one in lines]
    assert histories[0] == histories[1]
    results = [json.loads((folder / "result.json").read_text()) for folder in (found, expected)]
    assert len(set(results[1]["steps"])) > 1
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in out.with_name(f"{out.name}.unfinished").glob("step-*"))


def test_killed_at_random_moments(server: Server, words: Words, uninterrupted: Path, tmp_path: Path) -> None:
    out, rng = tmp_path / "run", random.Random(0)
    n_killed = n_inside_a_write = 0
    while n_killed < 15:
        before = checkpoints(out)
        # In every other one most of the time passes in writing.
        job = server.start(*words, "--resume", delays={"os.fsync": 0.03} if n_killed % 2 else None)
        if n_killed % 3 == 0:
            time.sleep(rng.uniform(0, 0.4))
        else:
            wait_until(lambda: out.exists() or checkpoints(out) != before, lambda: job.text)  # noqa: B023
            time.sleep(rng.uniform(0, 0.08))
        job.send(signal.SIGKILL)
        if out.exists():  # on a fast machine, perhaps: begin once more
            job.wait()
            assert_same(out, uninterrupted)
            shutil.rmtree(out)
            continue
        assert job.wait() == -signal.SIGKILL, job.text
        n_killed += 1
        n_inside_a_write += (tmp_path / "run.unfinished" / ".unfinished").exists()
    assert n_inside_a_write > 0
    done = server.run(*words, "--resume")
    assert done.wait() == 0, done.text
    assert_same(out, uninterrupted)
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(
    server: Server,
    words: Words,
    uninterrupted: Path,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    out = tmp_path / "run"
    # So rarely that only being interrupted leaves a checkpoint.
    rarely = (*words[:-1], 1_000_000)
    job = server.start(*rarely)
    job.wait_for("step 60 ")
    assert checkpoints(out) == []
    job.send(number)
    assert job.wait() == code, job.text
    assert job.last_line == (
        f"pspns: error: stopped before the end; what was trained is kept in {out}.unfinished: "
        "give the same command with --resume to go on from there"
    )
    assert "Traceback" not in job.text
    assert [path.name for path in tmp_path.iterdir()] == ["run.unfinished"]
    (kept,) = checkpoints(out)
    step = int(kept.removeprefix("step-").removesuffix(".safetensors"))
    done = server.run(*rarely, "--resume")
    assert done.wait() == 0, done.text
    assert f"going on after step {step:,}, from {out}.unfinished" in done.text
    following = [line for line in done.text.splitlines() if line.startswith("step ")]
    assert following[0].startswith(f"step {step + 20 - step % 20:,} ")
    settings = [json.loads((folder / "result.json").read_text())["settings"]["run"] for folder in (out, uninterrupted)]
    assert [one["checkpoint_seconds"] for one in settings] == [1_000_000, 0]
    assert (out / "model/model.safetensors").read_bytes() == (uninterrupted / "model/model.safetensors").read_bytes()
    again = server.run(*rarely, "--resume")
    assert again.wait() == 2
    assert "is a finished run, so there is nothing to go on with" in again.last_line
    assert list(tmp_path.iterdir()) == [out]


def test_interrupted_twice_it_stops_at_once(server: Server, words: Words, tmp_path: Path) -> None:
    """Even while it writes what the first interruption asked for."""
    job = server.start(*words[:-1], 1_000_000, delays={"os.fsync": 600})
    job.wait_for("step 60 ")
    job.send(signal.SIGINT)
    job.wait_for("waiting in os.fsync")
    assert "stopping after this step; once more to stop at once" in job.text
    job.send(signal.SIGINT)
    assert job.wait() == 130
    assert job.last_line == f"pspns: error: stopped before the end; nothing was written to {tmp_path / 'run'}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("where", "kept"), [("pspns.cli.train.load_data", False), ("pspns.run.judge", True)])
def test_interrupted_before_and_after_training(
    server: Server, words: Words, tmp_path: Path, where: str, kept: bool
) -> None:
    job = server.start(*words, delays={where: 600})
    job.wait_for(f"waiting in {where}")
    job.send(signal.SIGINT)
    assert job.wait() == 130
    assert ("with --resume to go on" if kept else "nothing was written to") in job.last_line
    assert [path.name for path in tmp_path.iterdir()] == (["run.unfinished"] if kept else [])


@pytest.fixture(scope="module")
def stopped(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Words, Path]:
    """The words of a run that was stopped, and where it should have gone."""
    folder = tmp_path_factory.mktemp("stopped")
    given = train(clicks_file, folder)
    job = server.start(*given)
    job.wait_for("step 60 ")
    job.send(signal.SIGINT)
    assert job.wait() == 130
    return given, folder / "run"


class TestRefusals:
    def test_the_same_command_without_resume(self, server: Server, stopped: tuple[Words, Path]) -> None:
        given, out = stopped
        job = server.run(*given)
        assert job.wait() == 2
        assert job.text == (
            f"pspns: error: {out}.unfinished holds checkpoints of a run that was stopped; "
            "say --resume to go on with it, or --overwrite to start anew\n"
        )

    def test_other_settings(self, server: Server, stopped: tuple[Words, Path]) -> None:
        job = server.run(*stopped[0], "--resume", "--l2", 1, "--start", "normal")
        assert job.wait() == 2
        assert "start.name: then 'xavier', now 'normal'" in job.last_line
        assert "training.l2: then 0.0001, now 1.0" in job.last_line
        assert job.last_line.endswith("use the same settings, or start anew with --overwrite")

    def test_other_data(
        self, server: Server, stopped: tuple[Words, Path], clicks: pl.DataFrame, tmp_path: Path
    ) -> None:
        """In a file of another name, which would not matter; what is in it does."""
        given = list(stopped[0])
        given[2] = tmp_path / "other.csv"
        clicks.write_csv(tmp_path / "other.csv")
        same = server.start(*given, "--resume")
        same.wait_for("going on after step")
        same.send(signal.SIGINT)
        assert same.wait() == 130
        clicks[1:].write_csv(tmp_path / "other.csv")
        job = server.run(*given, "--resume")
        assert job.wait() == 2
        assert "parts.fingerprint: then" in job.last_line

    def test_a_second_process(self, server: Server, stopped: tuple[Words, Path]) -> None:
        given, out = stopped
        first = server.start(*given, "--resume", delays={"pspns.run.judge": 600})
        first.wait_for("going on after step")
        for more in ((), ("--resume",), ("--overwrite",)):
            second = server.run(*given, *more)
            assert second.wait() == 1
            assert f"{out}.unfinished: another run (process {first.pid} on " in second.last_line
        first.send(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert checkpoints(out)

    def test_starting_anew(self, server: Server, stopped: tuple[Words, Path], uninterrupted: Path) -> None:
        given, out = stopped
        job = server.run(*given, "--overwrite")
        assert job.wait() == 0, job.text
        assert "going on" not in job.text
        assert "step 20 " in job.text
        assert_same(out, uninterrupted)
        assert list(out.parent.iterdir()) == [out]


def test_resume_where_nothing_was_begun(server: Server, words: Words, uninterrupted: Path, tmp_path: Path) -> None:
    job = server.run(*words, "--resume")
    assert job.wait() == 0, job.text
    assert "there is no checkpoint in" in job.text
    assert_same(tmp_path / "run", uninterrupted)
