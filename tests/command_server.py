"""`pspns` in processes of its own, many of them, without the seconds that each would need to start.

A server imports what a run needs once and forks a process for every command. There, functions can be made slow, so that
a signal finds them at work, or made to fail, so that a full disk need not be filled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INTERVAL = 20  # steps between two evaluations, and so between two checkpoints

SERVER = """
import ctypes, functools, json, os, pkgutil, sys, time, traceback
import torch, torch._dynamo
import pspns.cli.app, pspns.cli.train
from pspns.cli import main

def replace(name, make):
    owner, _, function = name.rpartition(".")
    owner = pkgutil.resolve_name(owner)
    real = getattr(owner, function)
    setattr(owner, function, functools.wraps(real)(make(real)))

def slow(name, seconds):
    def make(real):
        def wait_first(*arguments, **options):
            os.write(2, f"waiting in {name}\\n".encode())
            time.sleep(seconds)
            return real(*arguments, **options)
        return wait_first
    replace(name, make)

def fail(name, call, number, kind):
    calls, words = [], os.strerror(number)
    error = OSError(number, words) if kind == "OSError" else pkgutil.resolve_name(kind)(words)
    def make(real):
        def fail_once(*arguments, **options):
            calls.append(name)
            if len(calls) == call:
                raise error
            return real(*arguments, **options)
        return fail_once
    replace(name, make)

def obey_modes():
    # Root may write where nobody may, until it gives up its capabilities (capset, version 3, none of them).
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")

def work(words, log, delays, failure, obeys_modes):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    for name, seconds in delays.items():
        slow(name, seconds)
    if failure:
        fail(*failure)
    if obeys_modes:
        obey_modes()
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
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
    print(answer, flush=True)
"""


@dataclass
class Server:
    """Starts commands."""

    process: subprocess.Popen[str]
    folder: Path
    jobs: list[Job] = field(default_factory=list)

    def ask(self, **order: Any) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(
        self,
        *words: object,
        delays: dict[str, float] | None = None,
        failure: tuple[str, int, int, str] | None = None,
        obeys_modes: bool = False,
    ) -> Job:
        """`delays`: function → seconds it waits first; `failure`: function, which call, error number, exception."""
        log = self.folder / f"{len(self.jobs)}.log"
        log.touch()
        order = {"delays": delays or {}, "failure": failure, "obeys_modes": obeys_modes}
        self.jobs.append(Job(self, self.ask(words=[*map(str, words)], log=str(log), **order), log))
        return self.jobs[-1]

    def run(self, *words: object, **how: Any) -> Job:
        job = self.start(*words, **how)
        job.wait()
        return job


@dataclass
class Job:
    """A command at work."""

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

    def wait_for(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.text.count(words) >= times, lambda: self.text)

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def last_line(self) -> str:
        return self.text.splitlines()[-1]

    @property
    def steps(self) -> list[int]:
        """Of the evaluations it told of."""
        lines = [line.split() for line in self.text.splitlines() if line.startswith("step ")]
        return [int(words[1].replace(",", "")) for words in lines]


def wait_until(is_true: Callable[[], bool], describe: Callable[[], str]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, f"waited a minute in vain: {describe()}"
        time.sleep(0.002)


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A server whose logs go to a folder; it ends with all that it started."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = Server(process, folder)
        try:
            yield server
        finally:
            for job in server.jobs:
                if job.code is None:  # left by a test that failed
                    job.send(signal.SIGKILL)
            assert process.stdin
            process.stdin.close()


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in out.with_name(f"{out.name}.unfinished").glob("step-*"))


def assert_same_run(found: Path, expected: Path) -> None:
    """Every byte of two runs, but for the time they took."""
    for name in ("model/model.safetensors", "model/pairs.safetensors", "per_user.parquet"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    lines = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (found, expected)]
    histories = [[{**json.loads(line), "seconds": None} for line in one] for one in lines]
    assert histories[0] == histories[1]
    results = [json.loads((folder / "result.json").read_text()) for folder in (found, expected)]
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]


SHORT = {"learning_rate": 0.01, "patience": 3}
"""For `train`: eleven evaluations, about half a second."""


def train(data: Path, folder: Path, *, learning_rate: float = 0.003, patience: float = 15) -> tuple[object, ...]:
    """The words of a training in which replicas stop at different times; a checkpoint after each evaluation."""
    places = ("train", "--data", data, "--out", folder / "run", "--no-baselines", "--threads", 1)
    training = ("--seeds", "0-2", "--batch-size", 64, "--embedding-size", 16, "--learning-rate", learning_rate)
    stopping = ("--evaluate-every", INTERVAL, "--max-steps", 1200, "--patience", patience)
    return (*places, *training, *stopping, "--checkpoint-seconds", 0)
