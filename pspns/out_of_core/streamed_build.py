"""Positives built a few users at a time, from a matrix on disk into a Parquet file."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from pyarrow import parquet

from pspns.api import BUILD_SECTIONS, check_no_noise, resolve_for_build
from pspns.build_folder import RECORD, new_build_folder
from pspns.built_positives import PAIRS, USERS
from pspns.components import part_name, part_names
from pspns.data.interactions import Ids, Ints
from pspns.errors import PspnsError, SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.global_svd import Factors, GlobalSvd
from pspns.json_files import write_json
from pspns.memory import MemoryBudget
from pspns.model_files import id_column
from pspns.options import Layer, base_layers
from pspns.out_of_core.spilled_data import SpilledData, find_train, spill
from pspns.positives._proposals import GlobalPattern
from pspns.record import describe_machine, describe_versions
from pspns.rng import host_stream
from pspns.run import choose_device, svd_rank_of_start
from pspns.settings import Settings
from pspns.shapes import Ground, PositivePairs
from pspns.spectral import OVERSAMPLING, POWER_PASSES, is_exact, randomized_svd, truncated_svd

SCRATCH = "scratch"  # a folder that is gone once the build is done

# A block of users has about so many pairs, counting 128 for each user beside their own. Its bounds are multiples of
# the smaller number, so that users are multiplied in the same company as in memory.
BLOCK_PAIRS = 1 << 20
BLOCK_GRAIN = 128

SECONDS_BETWEEN_LINES = 20.0

Say = Callable[[str], None]
"""Told in words what the build does and finds."""


@dataclass(frozen=True)
class StreamedBuild:
    """What was written to the folder, in numbers."""

    facts: dict[str, Any]  # as `describe_positives` gives them, but seed_agreement is None where the SVD has a seed
    seconds: dict[str, float]  # stage → wall time

    def words(self) -> str:
        """One line for the screen."""
        facts = self.facts
        text = f"positives: {facts['pairs']:,} pairs, {facts['visits_an_epoch']:,} visits an epoch"
        if "svd" in facts:
            text += f"; {facts['agreed']:,} agreed, {facts['injected']:,} injected"
            if facts["svd"]["seed_agreement"] is None:
                text += "; how far two seeds of the SVD agree was not computed"
        return text


def build_to_folder(
    data: str | Path,
    out: str | Path,
    *,
    recipe: str = "paper",
    config: str | Path | None = None,
    overwrite: bool = False,
    say: Say = lambda line: None,
    **options: Any,
) -> StreamedBuild:
    """Positives of a file, or of the train file of a folder, written to the folder `out`; options as everywhere.

    Memory follows the users and items, not the pairs.
    """
    settings = resolve_for_build(base_layers(recipe, config), Layer("build_to_folder", {"data": str(data), **options}))
    check_settings(settings)
    with new_build_folder(Path(out), overwrite=overwrite) as folder:
        return build_out_of_core(settings, folder, say)


def check_settings(settings: Settings) -> None:
    """Refuse what cannot be built out of core before anything is read."""
    check_no_noise(settings)
    protocol = find_protocol(settings.run.protocol)
    if protocol.drop_held_out:
        raise SettingsError(
            f"protocol {protocol.name} drops held-out pairs, which are not read out of core; choose strict, or build "
            "without --out-of-core"
        )
    if settings.split is not None:
        raise SettingsError(
            "positives are built from every row of a file and from the train part of a folder, never from a split made "
            "on the way; leave [split] out"
        )
    name = part_name("positives", settings.positives)
    if name not in part_names("positives"):
        raise SettingsError(
            f"positives '{name}' may look at all pairs at once, which cannot be done out of core; choose one of "
            f"{', '.join(part_names('positives'))}, or build without --out-of-core"
        )


def build_out_of_core(settings: Settings, folder: Path, say: Say) -> StreamedBuild:
    """The files of a build in an existing folder; what waits on disk meanwhile lies in the same folder."""
    if settings.run.threads:
        torch.set_num_threads(settings.run.threads)
    memory = MemoryBudget(choose_device(settings.run.device), settings.run.memory_gib)
    seconds: dict[str, float] = {}
    scratch = folder / SCRATCH
    try:
        scratch.mkdir()
        with _stage("reading", seconds, say) as progress:
            data = spill(find_train(settings.data), scratch, settings.data.min_rating, progress)
        for fact in data.facts:
            say(fact)
        n_users, n_items = data.matrix.shape
        say(f"built from {len(data.matrix):,} pairs of {n_users:,} users and {n_items:,} items ({data.made_by})")
        factors = None
        if isinstance(settings.positives, GlobalPattern):
            with _stage("SVD", seconds, say) as progress:
                factors = _factors(data, settings, memory, scratch / "transposed", progress)
        with _stage("pairs", seconds, say) as progress:
            facts = _write_pairs(data, settings, memory, factors, folder, progress)
        with _stage("fingerprint", seconds, say):
            _write_record(data, settings, facts, folder)
        shutil.rmtree(scratch)
    except (OSError, pl.exceptions.PolarsError, pa.ArrowException) as error:
        raise PspnsError(f"cannot write the files of the build: {error}") from error
    return StreamedBuild(facts, seconds)


@contextmanager
def _stage(name: str, seconds: dict[str, float], say: Say) -> Iterator[Callable[[str], None]]:
    """Takes the time of a stage; what it says of its progress is passed on from time to time."""
    began = last = time.monotonic()

    def progress(line: str) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(f"{name}: {line} ({last - began:.0f} s)")

    yield progress
    seconds[name] = time.monotonic() - began
    say(f"{name}: done ({seconds[name]:.0f} s)")


def _factors(
    data: SpilledData, settings: Settings, memory: MemoryBudget, transposed: Path, progress: Callable[[str], None]
) -> Factors:
    """The SVD as `GlobalSvd` makes it of the same data in memory."""
    builder, matrix = settings.positives, data.matrix
    limit = min(matrix.shape)
    if builder.rank > limit:
        raise SettingsError(
            f"rank must be at most min(n_users, n_items) = {limit}, got {builder.rank}; lower [positives] rank"
        )
    rng = host_stream(settings.run.data_seed, "svd")
    if is_exact(matrix.shape, exact=builder.exact):
        # Matrix, normalised matrix and their product in memory, and what eigenvectors take: see `needed_bytes`.
        memory.check(36 * len(matrix) + 4 * 8 * limit**2, f"an exact SVD of {len(matrix):,} pairs, even out of core,")
        whole = matrix.rows_of(0, matrix.shape[0])
        made = truncated_svd(whole, _computed_rank(settings, limit), rng, memory.device, exact=True)
    else:
        n_done, n_products = 0, POWER_PASSES + 2

        def count_product() -> None:
            nonlocal n_done
            n_done += 1
            progress(f"{n_done} of {n_products} passes over the pairs")

        operator = matrix.normalised(memory.device, transposed, after_product=count_product)
        made = randomized_svd(operator, _computed_rank(settings, limit), rng)
        transposed.unlink()
    U, S, V = made
    return U[:, : builder.rank].contiguous(), S[: builder.rank].contiguous(), V[:, : builder.rank].contiguous()


def _computed_rank(settings: Settings, limit: int) -> int:
    return min(max(int(settings.positives.rank), svd_rank_of_start(settings)), limit)


def _write_pairs(
    data: SpilledData,
    settings: Settings,
    memory: MemoryBudget,
    factors: Factors | None,
    folder: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """`pairs.parquet` block by block, then `users.parquet`; the facts about both."""
    n_users, n_items = data.matrix.shape
    n_pairs = np.zeros(n_users, np.int64)  # of each user
    counts = _Counts()
    builder = settings.positives
    if factors is not None:
        builder, factors = _ready_made(builder, factors, data.matrix.item_degrees)
    with _PairsFile(folder / PAIRS, data.user_ids, data.item_ids) as file:
        for first, last in _blocks(data.matrix.user_degrees, settings.positives):
            svd = GlobalSvd() if factors is None else _FactorsOfBlock(factors, slice(first, last))
            train = data.matrix.pairs_of(first, last)
            pairs = builder.build(Ground(last - first, n_items, train, settings.run.data_seed, memory, svd=svd))
            counts.add(pairs)
            n_pairs[first:last] = np.bincount(pairs.users, minlength=last - first)
            file.write(pairs, first)
            progress(f"of {last:,} of {n_users:,} users")
    weights = settings.weighting.weights(n_pairs)
    pl.DataFrame({"user": id_column(data.user_ids), "pairs": n_pairs, "weight": weights}).write_parquet(folder / USERS)
    facts = counts.facts(len(data.matrix), weights[n_pairs > 0])
    if factors is not None:
        exact = is_exact(data.matrix.shape, exact=settings.positives.exact)
        facts["svd"] = {
            "rank": settings.positives.rank,
            "computed_rank": _computed_rank(settings, min(data.matrix.shape)),
            "exact": exact,
            "oversampling": None if exact else OVERSAMPLING,
            "power_passes": None if exact else POWER_PASSES,
            "seed_agreement": 1.0 if exact else None,  # it takes a second SVD, and every proposal once more
        }
    return facts


def _ready_made(builder: Any, factors: Factors, item_degrees: Ints) -> tuple[Any, Factors]:
    """The builder without what it would ask of all pairs at once, and the factors with it: rank and item degrees."""
    U, S, V = factors
    if builder.times_root_degree:
        V = V * torch.from_numpy(np.sqrt(item_degrees)).to(V)[:, None]
    return dataclasses.replace(builder, rank=1, exact=False, times_root_degree=False), (U, S, V)


class _FactorsOfBlock(GlobalSvd):
    """The rows of U of some users; S and V as they are."""

    def __init__(self, factors: Factors, users: slice):
        super().__init__()
        self._factors, self._users = factors, users

    def factors(self, ground: Ground, rank: int, *, exact: bool = False) -> Factors:
        U, S, V = self._factors
        return U[self._users], S, V


def _blocks(degrees: Ints, builder: Any) -> Iterator[tuple[int, int]]:
    """The first user of each block and the one after its last."""
    proposals = builder.neighbour_count if getattr(builder, "neighbours", "") == "fixed" else 0
    cost = np.cumsum(degrees + proposals + 128)
    grains = np.arange(0, len(degrees), BLOCK_GRAIN)
    firsts = grains[np.diff(cost[grains] // BLOCK_PAIRS, prepend=-1) > 0].tolist()
    return zip(firsts, [*firsts[1:], len(degrees)], strict=True)


@dataclass
class _Counts:
    """Sums over blocks."""

    pairs: int = 0
    visits: int = 0
    observed: int = 0
    agreed: int = 0

    def add(self, pairs: PositivePairs) -> None:
        self.pairs += len(pairs)
        self.visits += pairs.n_visits
        self.observed += int(pairs.is_observed.sum())
        self.agreed += int(pairs.is_agreed.sum())

    def facts(self, n_train: int, weights: Any) -> dict[str, Any]:
        """See `describe_positives`; `weights` are those of users with pairs."""
        return {
            "pairs": self.pairs,
            "visits_an_epoch": self.visits,
            "observed": self.observed,
            "agreed": self.agreed,
            "injected": self.pairs - self.observed,
            "observed_left_out": n_train - self.observed,
            "dropped_because_held_out": 0,
            "user_weights": {
                "mean": float(weights.mean(dtype="float64")),
                "least": float(weights.min()),
                "most": float(weights.max()),
            },
        }


class _PairsFile:
    """`pairs.parquet` with the columns of `BuiltPositives.frame`, a row group for each block."""

    def __init__(self, path: Path, user_ids: Ids, item_ids: Ids):
        self._user_ids, self._item_ids = id_column(user_ids), id_column(item_ids)
        schema = self._table(_no_pairs(), 0).schema
        self._writer = parquet.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)

    def __enter__(self) -> _PairsFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, pairs: PositivePairs, first_user: int) -> None:
        """Pairs whose users are numbered from `first_user` on."""
        if len(pairs):
            table = self._table(pairs, first_user)
            self._writer.write_table(table, row_group_size=len(table))

    def _table(self, pairs: PositivePairs, first_user: int) -> Any:
        return pl.DataFrame(
            {
                "user": self._user_ids.gather(pairs.users + first_user),
                "item": self._item_ids.gather(pairs.items),
                "copies": pairs.copies,
                "weight": pairs.pair_weights,
                "observed": pairs.is_observed,
                "global": pairs.is_global,
            }
        ).to_arrow()


def _no_pairs() -> PositivePairs:
    none = np.empty(0, np.int64)
    no_flags = none.astype(bool)
    return PositivePairs(none, none, none.astype(np.uint8), none.astype(np.float32), no_flags, no_flags)


def _write_record(data: SpilledData, settings: Settings, facts: dict[str, Any], folder: Path) -> None:
    """`build.json`, as `write_build` writes it."""
    protocol = find_protocol(settings.run.protocol)
    n_users, n_items = data.matrix.shape
    record = {
        "protocol": {"name": protocol.name, "meaning": protocol.meaning, "warning": protocol.warning},
        "data": {
            "source": settings.data.source,
            "fingerprint": data.fingerprint(),
            "split": data.made_by,
            "users": n_users,
            "items": n_items,
            "held_out_only_users": 0,
            "held_out_only_items": 0,
            "train": len(data.matrix),
            "valid": 0,
            "test": 0,
            "facts": list(data.facts),
        },
        "positives": facts,
        "quality": None,
        "settings": {section: values for section, values in settings.as_dict().items() if section in BUILD_SECTIONS},
        "versions": describe_versions(),
        "machine": describe_machine(choose_device(settings.run.device)),
    }
    write_json(folder / RECORD, record)
