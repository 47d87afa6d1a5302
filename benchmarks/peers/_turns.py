"""A rival's side of the conversation: prepare, then take a turn whenever asked, and at the end show the answer.

`script.py TASK GIVEN.npz ANSWER.npz`: each line on standard input asks for a turn, each on standard output is JSON.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers._given import Given


@dataclass(frozen=True)
class Task:
    """A rival ready to run."""

    turn: Callable[[], Any]  # what is timed
    answer: Callable[[Any], Mapping[str, Any]]  # arrays to be checked, of what the last turn returned
    units: float = 1.0  # how many epochs, steps or million draws a turn has


def serve(package: str, tasks: Mapping[str, Callable[[Given], Task]]) -> None:
    """Be the rival until the other side has had enough."""
    name, given, answer = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with _undisturbed_output() as say:
        task = tasks[name](Given.read(given))
        say({"versions": _versions(package, "torch", "numpy", "scipy")})
        result = None
        for _ in sys.stdin:
            began = time.perf_counter()
            result = task.turn()
            say({"seconds": (time.perf_counter() - began) / task.units})
        np.savez(answer, **task.answer(result))


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found | {"python": platform.python_version()}


@contextmanager
def _undisturbed_output() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Standard output for us alone: what libraries print, also from compiled code, goes to standard error."""
    with os.fdopen(os.dup(1), "w") as lines:
        os.dup2(2, 1)
        yield lambda line: print(json.dumps(line), file=lines, flush=True)
