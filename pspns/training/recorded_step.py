"""A step on the GPU, recorded once and replayed: launching its kernels one by one takes longer than they run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Before a recording, libraries must have made the workspaces that they make on first use.
STEPS_BEFORE_RECORDING = 3


class RecordedStep:
    """Calls `step`, which must work on the device alone; `forget` it when a tensor it uses is replaced."""

    def __init__(self, step: Callable[[], None]):
        self._step = step
        self._graph: torch.cuda.CUDAGraph | None = None
        self._n_taken = 0

    def __call__(self) -> None:
        if self._graph:
            self._graph.replay()
        elif self._n_taken < STEPS_BEFORE_RECORDING:
            self._take_apart()
        else:
            self._graph = self._record()
            self._graph.replay()
        self._n_taken += 1

    def forget(self) -> None:
        self._graph, self._n_taken = None, 0

    def _take_apart(self) -> None:
        """On a stream of its own, as a recording will be."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with _nothing_thrown_away(), torch.cuda.graph(graph):
            self._step()  # noted down, not carried out
        return graph


@contextmanager
def _nothing_thrown_away() -> Iterator[None]:
    """What the garbage collector frees on the device while a recording runs, an earlier recording say, spoils it."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
