"""What one GPU can do at most: bytes copied, rows gathered from its cache, products of the shapes that are needed."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

GPU = torch.device("cuda")


def device_seconds(work: Callable[[], object], times: int = 10, rounds: int = 7) -> float:
    """Median seconds of one call, recorded several times over and replayed: no launch is waited for."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work(), work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            work()
    graph.replay()
    found = []
    for _ in range(rounds):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize()
        found.append(began.elapsed_time(ended) / 1e3 / times)
    return statistics.median(found)


def copied_bytes_per_second() -> float:
    """Read and written, of a table that fits in no cache."""
    table = torch.randn(2**29, device=GPU)
    into = torch.empty_like(table)
    return 2 * table.nbytes / device_seconds(lambda: torch.neg(table, out=into), times=3)


def gathered_bytes_per_second(n_rows: int, n_columns: int, n_edges: int) -> float:
    """Of random rows of a float32 table, each program summing as many of them as the next."""
    table = torch.randn(n_rows, n_columns, device=GPU)
    each = 128
    numbers = torch.randint(n_rows, (n_edges // each, each), device=GPU, dtype=torch.int32)
    sums = torch.empty(len(numbers), n_columns, device=GPU)
    grid = len(numbers), triton.cdiv(n_columns, 64)
    seconds = device_seconds(
        lambda: _sum_rows[grid](table, numbers, sums, n_columns, EACH=each, ROWS=16, COLUMNS=64, num_warps=2)
    )
    return numbers.numel() * n_columns * 4 / seconds


def operations_per_second(left: Tensor, n_columns: int) -> float:
    """Of a product with this matrix; 16-bit operands give float32 sums, float32 ones are rounded to TF32."""
    right = torch.randn(left.shape[1], n_columns, device=GPU).to(left.dtype)
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        if left.dtype == torch.float32:
            seconds = device_seconds(lambda: torch.mm(left, right))
        else:
            seconds = device_seconds(lambda: torch.mm(left, right, out_dtype=torch.float32))
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    return 2 * left.numel() * n_columns / seconds


@triton.jit
def _sum_rows(table, numbers, sums, n_columns, EACH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, EACH, ROWS):
        rows = tl.load(numbers + tl.program_id(0) * EACH + first + tl.arange(0, ROWS))
        total += tl.load(table + rows[:, None] * n_columns + columns, mask=columns < n_columns, other=0.0)
    places = tl.program_id(0) * n_columns + columns
    tl.store(sums + places, tl.sum(total, 0)[None, :], mask=columns < n_columns)
