"""Whom long work tells of itself, and where it keeps what is not finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pspns.run import Say
from pspns.training.checkpoint import Checkpoints
from pspns.training.loop import Watch


@dataclass(frozen=True)
class Telling:
    watch: Watch = lambda step, last_step, evaluation: None
    say: Say = lambda line: None
    unfinished: Path | None = None
    """Unset: nowhere, and a training that is stopped is lost."""

    @contextmanager
    def place(self, name: str) -> Iterator[Path | None]:
        """The folder for the checkpoints of one training, closed to other processes; it goes if the block ends well.

        Write what was trained inside the block: whatever happens, there is either a checkpoint or the result.
        """
        if self.unfinished is None:
            yield None
            return
        place = self.unfinished / name
        checkpoints = Checkpoints(place, {})  # nothing is read or written through it: whose they are does not matter
        try:
            with checkpoints.lock():
                yield place
                checkpoints.remove()
        finally:
            with suppress(OSError):  # there are others in it
                self.unfinished.rmdir()
