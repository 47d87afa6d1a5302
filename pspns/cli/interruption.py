"""Ctrl-C in training: the first lets the present step end, so that its state can be kept; the second stops at once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pspns.training.loop import Watch
    from pspns.training.stopping import Evaluation

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STANDARD_ERROR = 2


class Interruption:
    """Handles the signals that ask a program to end while the block runs; each ends in a KeyboardInterrupt."""

    def __init__(self) -> None:
        self._asked_by: int | None = None
        self._is_training = False  # and so will soon be told of a step that is done
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        # Who started the program may have had a signal ignored, as shells do for what runs in the background.
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """As shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self._asked_by or signal.SIGINT)

    def watch_too(self, watch: Watch) -> Watch:
        """The same watch, and an end after the step in which that was asked for."""

        def watch_and_end(step: int, last_step: int, evaluation: Evaluation | None) -> None:
            watch(step, last_step, evaluation)
            self._is_training = step < last_step
            if self._asked_by is not None:
                raise KeyboardInterrupt

        return watch_and_end

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_first = self._asked_by is None
        self._asked_by = number
        if not (is_first and self._is_training):
            raise KeyboardInterrupt
        # Not through a stream: the signal may have come while one was being written to.
        with suppress(OSError):
            os.write(STANDARD_ERROR, b"\nstopping after this step; once more to stop at once\n")
