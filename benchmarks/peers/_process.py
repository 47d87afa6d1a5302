"""A rival at work in another process, asked for one turn after the other."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
THREADS = 2
LIMIT_SECONDS = 600

# Two threads for everybody, whichever library makes them; no GPU; LensKit without the compiler of torch, which costs
# it 20 s at the first epoch.
ENVIRONMENT = {
    **{f"{library}_NUM_THREADS": str(THREADS) for library in ("OMP", "MKL", "OPENBLAS", "NUMBA", "RAYON", "LK")},
    "CUDA_VISIBLE_DEVICES": "",
    "LK_TORCH_COMPILE": "0",
    "PYTHONPATH": str(ROOT),
}


class RivalFailedError(Exception):
    """A rival could not be installed, stopped, or took too long."""


class RivalProcess:
    """Prepared when it is made; see `_turns.serve` for the other side."""

    def __init__(self, process: subprocess.Popen[str], answer: Path, errors: Path, limit: float):
        self._process, self._answer, self._errors, self._limit = process, answer, errors, limit
        self.versions: dict[str, str] = self._line()["versions"]

    def turn(self) -> float:
        """Seconds for one epoch, step or million draws."""
        assert self._process.stdin is not None
        try:
            print(file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure("stopped between turns") from None
        return float(self._line()["seconds"])

    def answer(self) -> dict[str, Any]:
        """What the last turn came to; after this there is no other turn."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._alarm():
            code = self._process.wait()
        if code:
            raise self._failure("did not answer")
        with np.load(self._answer, allow_pickle=False) as arrays:
            return dict(arrays)

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        with self._alarm() as rang:
            line = self._process.stdout.readline()
        if not line:
            raise self._failure(f"took longer than {self._limit:g} s" if rang.is_set() else "stopped")
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self._failure(f"said {line[:50]!r}, which is no JSON") from None
        return found

    @contextmanager
    def _alarm(self) -> Iterator[threading.Event]:
        rang = threading.Event()

        def ring() -> None:
            rang.set()
            self._process.kill()

        timer = threading.Timer(self._limit, ring)
        timer.start()
        try:
            yield rang
        finally:
            timer.cancel()

    def _failure(self, what: str) -> RivalFailedError:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a process that ends writes its reason last
            self._process.wait(timeout=5)
        self._process.kill()
        code = self._process.wait()
        return RivalFailedError(f"{what}: {last_line(self._errors.read_text(errors='replace'))} (exit code {code})")


@contextmanager
def rival_process(
    python: Path, script: Path, task: str, given: Path, folder: Path, limit: float = LIMIT_SECONDS
) -> Iterator[RivalProcess]:
    """The script, prepared for the task; it has ended when this has."""
    answer, errors = folder / "answer.npz", folder / "errors.txt"
    answer.unlink(missing_ok=True)
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            # -P: a script named as the library it runs must not be imported in its place.
            [python, "-P", script, task, given, answer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **ENVIRONMENT},
            cwd=folder,
        ) as process,
    ):
        try:
            yield RivalProcess(process, answer, errors, limit)
        finally:
            process.kill()


def last_line(text: str) -> str:
    """What a program said last, in at most 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"
