"""LightGCN and the construction of positives on one GPU: floors, times, and how far apart they are.

`python -m benchmarks.gpu --data ml-1m.npz epinions.npz pinterest.npz:200 --out DIR`: the first is trained on; from all
of them positives are built, with the rank after the colon or 50. An .npz of `write_arrays` needs numpy, scipy, torch
and Triton alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from scipy import sparse
from torch import Tensor

from benchmarks._gpu_ceilings import (
    GPU,
    copied_bytes_per_second,
    device_seconds,
    gathered_bytes_per_second,
    operations_per_second,
)
from benchmarks._world import read_data
from pspns.csr import degree_scales, to_torch
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Split
from pspns.evaluation.protocol import STRICT
from pspns.global_svd import GlobalSvd
from pspns.item_sets import RejectedItems
from pspns.memory import MemoryBudget
from pspns.models.lightgcn import LightGcn
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.psp import PspPositives
from pspns.rng import ReplicaStream, host_stream
from pspns.run import build_world, make_split
from pspns.settings import RunSettings, Settings
from pspns.shapes import PositiveBatch, World
from pspns.starts.xavier import XavierStart
from pspns.training.epochs import Epochs
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

SIZE, LAYERS, BATCH = 64, 3, 2048
REPLICAS = 1, 5, 10
N_CHECKED = 50  # steps after which vectors are compared
N_BEFORE, N_TIMED = 50, 150  # steps before the clock starts, and under it
ROUNDS = 7
SAME_TO = 1e-3  # of the way that the vectors have gone from their start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", required=True, help=".npz or folder, each with :rank after it if not 50")
    parser.add_argument("--out", type=Path, required=True, help="folder for gpu.json and gpu.md")
    options = parser.parse_args()
    places = [(Path(path), int(rank or 50)) for path, _, rank in (text.partition(":") for text in options.data)]
    options.out.mkdir(parents=True, exist_ok=True)

    split = _split_of(read_data(places[0][0]))
    world = build_world(split, _settings(), STRICT, MemoryBudget(GPU))
    print(f"{places[0][0].stem}: {world.n_users:,} users, {world.n_items:,} items, {len(world.train):,} train pairs")
    checks = [_check_vectors(world), _check_negatives(world)]
    print("\n".join(checks))
    ceilings = _ceilings(world)
    floors = {r: _floors(world, r, ceilings) for r in REPLICAS}
    steps = _time_steps(world)
    draws = {r: _seconds_of_draws(world, r) for r in REPLICAS}
    builds = [_time_build(path, rank) for path, rank in places]
    _write(options.out, places[0][0].stem, world, checks, ceilings, floors, steps, draws, builds)


def _settings(**sections: Any) -> Settings:
    return Settings(run=RunSettings(device="cuda"), **sections)


def _split_of(data: Interactions | GivenSplit) -> Split:
    return make_split(data, _settings(), STRICT)


# What is trained: ours, and a loop as one would write it first.


def _train(
    world: World, n_replicas: int, precision: str, steps: int, watch: Callable[..., None] = lambda *_: None
) -> Any:
    settings = TrainingSettings(steps=steps, batch_size=BATCH, precision=precision, evaluate_every=10**6)
    member = Member(world, XavierStart(), settings.l2, tuple(range(n_replicas)), None)
    trainer = Trainer([member], UniformNegatives(), settings, "recall@20", watch)
    return LightGcn(embedding_size=SIZE, layers=LAYERS).fit(world, trainer)


class NaiveLoop:
    """One replica: the normalised graph as a sparse matrix, autograd, torch's Adam; batches are drawn beforehand.

    The loop knows that the graph is symmetric: torch's own gradient of a sparse product transposes it each time.
    """

    def __init__(self, world: World, n_steps: int):
        n_users, n_items = world.n_users, world.n_items
        user_scale, item_scale = degree_scales(world.train.matrix(n_users, n_items))
        normalised = (
            sparse.diags_array(user_scale) @ world.train.matrix(n_users, n_items) @ sparse.diags_array(item_scale)
        )
        self.graph = to_torch(sparse.csr_array(sparse.block_array([[None, normalised], [normalised.T, None]])), GPU)
        start = XavierStart().embeddings(world, SIZE, host_stream(0, "start"))
        self.table = torch.from_numpy(np.concatenate(start)).to(GPU).requires_grad_()
        self.n_users, self.settings = n_users, TrainingSettings()
        self.adam = torch.optim.Adam([self.table], lr=self.settings.learning_rate)
        self.batches = list(_batches(world, n_steps))

    def run(self, first: int, last: int) -> None:
        for batch, drawn in self.batches[first:last]:
            live = batch.live[0]
            layers = [self.table]
            for _ in range(LAYERS):
                layers.append(_SymmetricProduct.apply(layers[-1], self.graph))
            final = torch.stack(layers).mean(0)
            rows = batch.users[0], self.n_users + batch.items[0], self.n_users + drawn
            u, i, j = (final[row] for row in rows)
            losses = -torch.nn.functional.logsigmoid((u * i).sum(1) - (u * j).sum(1))
            squares = sum(self.table[row].square().sum(1) for row in rows)
            loss = ((losses + self.settings.l2 / 2 * squares) * live).sum() / live.sum()
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, graph: Tensor) -> Tensor:
        ctx.graph = graph
        return graph @ table

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.graph @ gradient, None


def _batches(world: World, n_steps: int) -> Iterator[tuple[PositiveBatch, Tensor]]:
    epochs = Epochs([world], BATCH, [0])
    stream = ReplicaStream([0], "negatives", GPU)
    for _ in range(n_steps):
        batch = epochs.next_batch()
        yield batch, world.rejected.draw_outside(batch.users, 1, stream)[0, :, 0]


def _check_vectors(world: World) -> str:
    naive = NaiveLoop(world, N_CHECKED)
    start = naive.table.detach().clone()
    naive.run(0, N_CHECKED)
    way = float((_final(naive, naive.table) - _final(naive, start)).norm())
    found = []
    for n_replicas in REPLICAS:
        scorer = _train(world, n_replicas, "float32", N_CHECKED).scorer
        ours = torch.cat((scorer.users[:, 0], scorer.items[:, 0]))
        found.append(float((ours - _final(naive, naive.table)).norm()) / way)
    if not max(found) < SAME_TO:
        raise AssertionError(f"after {N_CHECKED} steps ours and the naive loop are {max(found):.1e} of their way apart")
    return (
        f"After {N_CHECKED} steps in float32, vectors of the naive loop and of ours with "
        f"{', '.join(map(str, REPLICAS))} replicas are at most {max(found):.1e} of the way gone apart."
    )


@torch.no_grad()
def _final(naive: NaiveLoop, table: Tensor) -> Tensor:
    layers = [table]
    for _ in range(LAYERS):
        layers.append(naive.graph @ layers[-1])
    return torch.stack(layers).mean(0)


def _check_negatives(world: World) -> str:
    """Against the definition: the r-th item outside of the user's set, r a number of the same stream."""
    n_replicas, n_rows = max(REPLICAS), 200
    users = torch.randint(world.n_users, (n_replicas, n_rows))
    seeds = range(n_replicas)
    on_gpu = ReplicaStream(seeds, "negatives", GPU)
    found = world.rejected.draw_outside(users.to(GPU), 1, on_gpu)[..., 0].cpu()
    own = sparse.csr_array(world.train.matrix(world.n_users, world.n_items) > 0)
    outside = [
        [np.setdiff1d(np.arange(world.n_items), own.indices[own.indptr[u] : own.indptr[u + 1]]) for u in row]
        for row in users.tolist()
    ]
    free = torch.tensor([[len(items) for items in row] for row in outside])
    ranks = ReplicaStream(seeds, "negatives").integers(free)[..., 0]
    expected = [[items[rank] for items, rank in zip(*rows, strict=True)] for rows in zip(outside, ranks, strict=True)]
    if not np.array_equal(found.numpy(), np.array(expected)):
        raise AssertionError("negatives drawn on the GPU are not those of the definition")
    return f"{n_replicas * n_rows:,} negatives are, each, the item that the definition gives on the CPU."


# What the hardware allows.


def _ceilings(world: World) -> dict[str, Any]:
    n_edges = len(world.train)
    dense = torch.from_numpy(world.train.matrix(world.n_users, world.n_items).toarray()).to(GPU)
    # Filled up to whole blocks, as ours are: the library is slow at odd sizes.
    dense = torch.nn.functional.pad(dense, (0, -world.n_items % 128, 0, -world.n_users % 128))
    found: dict[str, Any] = {
        "copied bytes a second": copied_bytes_per_second(),
        "gathered bytes a second": {r: gathered_bytes_per_second(world.n_items, SIZE * r, n_edges) for r in REPLICAS},
    }
    for name, dtype, pieces in (
        ("float16, two pieces", torch.float16, 2),
        ("float16", torch.float16, 1),
        ("bfloat16", torch.bfloat16, 1),
        ("TF32", torch.float32, 1),
    ):
        left = dense.to(dtype)
        found[f"operations a second, {name}"] = {r: operations_per_second(left, SIZE * r * pieces) for r in REPLICAS}
    return found


@dataclass(frozen=True)
class Floors:
    """Seconds of a step that no version of an algorithm can beat: its products or gathers, and the rest's bytes."""

    flops: float  # of the dense algorithm in float32
    gathered_bytes: float  # of the sparse one
    other_bytes: float
    dense: float
    dense_mixed: float
    sparse: float


def _floors(world: World, n_replicas: int, ceilings: dict[str, Any]) -> Floors:
    columns, sides = SIZE * n_replicas, 2 * LAYERS * 2  # products a step: both sides, forward and backward
    table = 4 * (world.n_users + world.n_items) * columns
    # Messages read and write each table once in each direction; Adam reads four and writes three.
    # A row of the batch reads three vectors before and three after propagation, and four again for the gradient.
    other_bytes = (4 + 7) * table + 10 * BATCH * columns * 4
    rest = other_bytes / ceilings["copied bytes a second"]
    one_piece = sides * 2 * world.n_users * world.n_items * columns
    gathered = sides * len(world.train) * columns * 4
    return Floors(
        flops=2 * one_piece,
        gathered_bytes=gathered,
        other_bytes=other_bytes,
        dense=rest + 2 * one_piece / ceilings["operations a second, float16, two pieces"][n_replicas],
        dense_mixed=rest + one_piece / ceilings["operations a second, float16"][n_replicas],
        sparse=rest + gathered / ceilings["gathered bytes a second"][n_replicas],
    )


# What it takes.


def _time_steps(world: World) -> dict[str, list[float]]:
    """Seconds a step, by name; all ways one after the other in each round."""
    naive = NaiveLoop(world, N_BEFORE + N_TIMED)
    ways: dict[str, Callable[[], float]] = {"naive": lambda: _seconds_of_naive(naive)}
    for precision in ("float32", "mixed"):
        for r in REPLICAS:
            ways[f"{precision} {r}"] = lambda r=r, precision=precision: _seconds_of_ours(world, r, precision)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, seconds in ways.items():
            taken = seconds()
            if turn > 0:  # the first one compiles
                found[name].append(taken)
    return found


def _seconds_of_naive(naive: NaiveLoop) -> float:
    naive.run(0, N_BEFORE)
    torch.cuda.synchronize()
    began = time.perf_counter()
    naive.run(N_BEFORE, N_BEFORE + N_TIMED)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / N_TIMED


def _seconds_of_ours(world: World, n_replicas: int, precision: str) -> float:
    marks = []

    def watch(step: int, last_step: int, evaluation: object) -> None:
        if step in (N_BEFORE, N_BEFORE + N_TIMED):
            torch.cuda.synchronize()
            marks.append(time.perf_counter())

    _train(world, n_replicas, precision, N_BEFORE + N_TIMED + 1, watch)
    return (marks[1] - marks[0]) / N_TIMED


def _seconds_of_draws(world: World, n_replicas: int) -> float:
    users = torch.randint(world.n_users, (n_replicas, BATCH), device=GPU)
    stream = ReplicaStream(range(n_replicas), "negatives", GPU)
    rejected = RejectedItems([world.rejected] * n_replicas)
    return device_seconds(lambda: rejected.draw_outside(users, 1, stream))


def _time_build(path: Path, rank: int) -> dict[str, Any]:
    """Positives of one data set, and the whole world built on them; the median after a first one."""
    split = _split_of(read_data(path))
    settings, memory = _settings(positives=PspPositives(rank=rank)), MemoryBudget(GPU)
    ground = build_world(split, _settings(), STRICT, memory)
    seconds: dict[str, list[float]] = {"positives": [], "world": []}
    for _ in range(6):
        for what, build in (
            ("positives", lambda: settings.positives.build(replace(ground, svd=GlobalSvd()))),
            ("world", lambda: build_world(split, settings, STRICT, memory)),
        ):
            torch.cuda.synchronize()
            began = time.perf_counter()
            built = build()
            torch.cuda.synchronize()
            seconds[what].append(time.perf_counter() - began)
    return {
        "data": path.stem,
        "rank": rank,
        "pairs": len(built.pairs),
        **{what: statistics.median(times[1:]) for what, times in seconds.items()},
    }


# What is said of it.


def _write(
    folder: Path,
    name: str,
    world: World,
    checks: list[str],
    ceilings: dict[str, Any],
    floors: dict[int, Floors],
    steps: dict[str, list[float]],
    draws: dict[int, float],
    builds: list[dict[str, Any]],
) -> None:
    machine = {
        "device": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    record = {
        "machine": machine,
        "data": name,
        "shape": [world.n_users, world.n_items, len(world.train)],
        "checks": checks,
        "ceilings": ceilings,
        "floors": {r: vars(found) for r, found in floors.items()},
        "seconds a step": steps,
        "seconds of draws": draws,
        "builds": builds,
    }
    (folder / "gpu.json").write_text(json.dumps(record, indent=2) + "\n")
    lines = [
        "# `python -m benchmarks.gpu`",
        ", ".join(f"{key} {value}" for key, value in machine.items()),
        f"LightGCN on {name}: {world.n_users:,} users, {world.n_items:,} items, {len(world.train):,} train pairs; "
        f"batch {BATCH}, size {SIZE}, {LAYERS} layers, medians of {ROUNDS} interleaved rounds of {N_TIMED} steps.",
        *checks,
        _table_of_ceilings(ceilings),
        _table_of_counts(floors),
        _table_of_steps(floors, steps, draws),
        _table_of_builds(builds),
    ]
    (folder / "gpu.md").write_text("\n\n".join(lines) + "\n")
    print("\n\n".join(lines[4:]))


def _table_of_ceilings(ceilings: dict[str, Any]) -> str:
    lines = ["| ceiling | " + " | ".join(map(_replicas, REPLICAS)) + " |", "|---|" + "---|" * len(REPLICAS)]
    for name, found in ceilings.items():
        values = [found[r] if isinstance(found, dict) else found for r in REPLICAS]
        lines.append(f"| {name}, 10¹² | " + " | ".join(f"{value / 1e12:.2f}" for value in values) + " |")
    return "\n".join(lines)


def _table_of_steps(floors: dict[int, Floors], steps: dict[str, list[float]], draws: dict[int, float]) -> str:
    lines = [
        "| a step | ms (least) | floor: dense product, ms | times that | floor: sparse gather, ms | times that | "
        "negatives' share |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, seconds in steps.items():
        median = statistics.median(seconds)
        what, r = (name, 1) if name == "naive" else (name.split()[0], int(name.split()[1]))
        dense = floors[r].dense_mixed if what == "mixed" else floors[r].dense
        share = "–" if name == "naive" else f"{draws[r] / median:.1%}"
        label = "naive loop, 1 replica" if name == "naive" else f"ours, {what}, {_replicas(r)}"
        sparse = "– | –" if what == "mixed" else f"{1e3 * floors[r].sparse:.3f} | {median / floors[r].sparse:.2f}"
        lines.append(
            f"| {label} | {1e3 * median:.3f} ({1e3 * min(seconds):.3f}) | {1e3 * dense:.3f} | {median / dense:.2f} | "
            f"{sparse} | {share} |"
        )
    return "\n".join(lines)


def _table_of_counts(floors: dict[int, Floors]) -> str:
    lines = [
        "| a step in float32 | dense product (2 pieces), 10⁹ operations | sparse gather, GB | all else, GB |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {_replicas(r)} | {one.flops / 1e9:.0f} | {one.gathered_bytes / 1e9:.2f} | {one.other_bytes / 1e9:.3f} |"
        for r, one in floors.items()
    ]
    return "\n".join(lines)


def _replicas(n: int) -> str:
    return f"{n} replica{'s' * (n > 1)}"


def _table_of_builds(builds: list[dict[str, Any]]) -> str:
    lines = ["| positives (PSP) | rank | pairs | built, s | with all of the world, s |", "|---|---|---|---|---|"]
    lines += [
        f"| {one['data']} | {one['rank']} | {one['pairs']:,} | {one['positives']:.3f} | {one['world']:.3f} |"
        for one in builds
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
