from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from pyarrow import parquet

from pspns import spectral
from pspns.api import build_positives
from pspns.errors import PspnsError, SettingsError
from pspns.out_of_core import sorted_rows, streamed_build
from pspns.out_of_core.number_file import NumberFile
from pspns.out_of_core.streamed_build import build_to_folder

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def clicks_of_a_crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900 users with text ids, 120 items, 9,000 rows of which some repeat; a few users click on nearly everything."""
    rng = np.random.default_rng(0)
    users = np.where(rng.random(9000) < 0.1, rng.integers(8, size=9000), rng.integers(900, size=9000))
    items = (120 * rng.random(9000) ** 2 + users % 5 * 9).astype(np.int64) % 120
    path = tmp_path_factory.mktemp("crowd") / "clicks.parquet"
    pl.DataFrame({"user": [f"u{user}" for user in users], "item": items}).write_parquet(path)
    return path


@pytest.fixture
def _in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts, shards and blocks, and an SVD whose result depends on sums of shards."""
    monkeypatch.setattr(sorted_rows, "ROWS_AT_ONCE", 700)
    monkeypatch.setattr(spectral, "SHARD_PAIRS", 1000)
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    monkeypatch.setattr(streamed_build, "BLOCK_PAIRS", 20_000)


@pytest.mark.usefixtures("_in_small_pieces")
@pytest.mark.parametrize(
    "options",
    [
        {"positives": "psp"},
        {"positives": "psp", "weighting": "capped", "copies": 5, "data_seed": 3},
        {"positives": "psp", "exact": True},
        {"positives": "psp", "recipe": "recommended"},
        {"positives": "agreement", "times_root_degree": True},
        {"positives": "merged", "neighbours": "share", "neighbour_share": 0.5},
        {"positives": "merged-weighted"},
        {"positives": "global", "neighbours": "fixed", "neighbour_count": 7},
        {"positives": "observed"},
        {"positives": "repeated"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_as_in_memory(clicks_of_a_crowd: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    rank = {} if options["positives"] in ("observed", "repeated") else {"rank": 12}
    built = build_to_folder(clicks_of_a_crowd, tmp_path / "built", threads=1, **rank, **options)
    expected = build_positives(clicks_of_a_crowd, threads=1, **rank, **options)
    pairs = pl.read_parquet(tmp_path / "built" / "pairs.parquet")
    assert pairs.schema == expected.frame().schema
    assert pairs.equals(expected.frame())
    assert pl.read_parquet(tmp_path / "built" / "users.parquet").equals(expected.users())
    assert {path.name for path in (tmp_path / "built").iterdir()} == {"pairs.parquet", "users.parquet", "build.json"}
    if rank and not options.get("exact"):
        assert 0 < expected.facts["svd"].pop("seed_agreement") <= 1
        assert built.facts["svd"].pop("seed_agreement") is None
    assert built.facts == expected.facts
    # No table of all pairs was made on the way.
    groups = parquet.ParquetFile(tmp_path / "built" / "pairs.parquet").metadata
    assert groups.num_row_groups > 3
    assert max(groups.row_group(number).num_rows for number in range(groups.num_row_groups)) < len(pairs) / 2


@pytest.mark.usefixtures("_in_small_pieces")
def test_same_bytes_with_one_and_two_threads(clicks_of_a_crowd: Path, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            build_to_folder(clicks_of_a_crowd, tmp_path / str(threads), rank=12, threads=threads)
    finally:
        torch.set_num_threads(before)
    for name in ("pairs.parquet", "users.parquet"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_progress_is_told_in_lines(clicks_of_a_crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_build, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    lines: list[str] = []
    built = build_to_folder(clicks_of_a_crowd, tmp_path / "built", rank=12, say=lines.append)
    for start in ("reading: 9,000 rows read", "SVD: 9 of 9 passes", "pairs: of 900 of 900 users", "pairs: done"):
        assert sum(line.startswith(start) for line in lines) == 1
    assert set(built.seconds) == {"reading", "SVD", "pairs", "fingerprint"}
    assert "how far two seeds of the SVD agree was not computed" in built.words()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rank": 121}, r"rank must be at most min\(n_users, n_items\) = 120, got 121"),
        ({"protocol": "published"}, "protocol published drops held-out pairs, which are not read out of core"),
        ({"positives": "pspns.positives._proposals:GlobalPattern"}, "may look at all pairs at once"),
        ({"core": 2}, "core cannot be set out of core"),
        ({"rank": 5, "memory_gib": 1e-6}, "an exact SVD of .* pairs, even out of core, needs about"),
    ],
)
def test_refusals_leave_nothing(
    clicks_of_a_crowd: Path, tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(PspnsError, match=complaint):
        build_to_folder(clicks_of_a_crowd, tmp_path / "new" / "built", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("full-disk-and-signals")
@pytest.mark.parametrize("place", ["rows", "matrix", "pairs"])
def test_a_full_disk_leaves_nothing(
    clicks_of_a_crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner, name = {
        "rows": (sorted_rows.SpilledRows, "add"),
        "matrix": (NumberFile, "append"),
        "pairs": (streamed_build._PairsFile, "write"),
    }[place]
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(PspnsError, match=r"cannot write the files of the build: .*No space left"):
        build_to_folder(clicks_of_a_crowd, tmp_path / "built", rank=12)
    assert list(tmp_path.iterdir()) == []


class TestCommand:
    @pytest.fixture
    def build(self, command: Cli, tmp_path: Path) -> Cli:
        def run(name: str, *words: object) -> Any:
            return command("build", "--out", tmp_path / name, "--rank", 5, "--threads", 1, *words)

        return run

    def test_writes_what_the_build_in_memory_writes(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        done = build("streamed", "--data", clicks_file, "--out-of-core")
        assert done.code == 0, done.err
        assert f"wrote {tmp_path / 'streamed'}" in done.err
        assert "built from" in done.err
        expected = build("in-memory", "--data", clicks_file)
        assert done.out.startswith(expected.out.split(", 0 dropped")[0])
        for name in ("pairs.parquet", "users.parquet"):
            one, two = (pl.read_parquet(tmp_path / folder / name) for folder in ("streamed", "in-memory"))
            assert one.equals(two)
        records = [(tmp_path / folder / "build.json").read_text() for folder in ("streamed", "in-memory")]
        assert records[0] == records[1]  # of data so small the SVD is exact, so nothing was left out

    def test_of_a_folder_the_same_pairs(self, build: Cli, clicks: pl.DataFrame, tmp_path: Path) -> None:
        parts = tmp_path / "parts"
        parts.mkdir()
        number = pl.int_range(pl.len())
        clicks.filter(number % 5 != 0).write_csv(parts / "train.csv")
        clicks.filter(number % 5 == 0).write_csv(parts / "test.csv")
        assert build("streamed", "--data", parts, "--out-of-core").code == 0
        assert build("in-memory", "--data", parts).code == 0
        one, two = (pl.read_parquet(tmp_path / folder / "pairs.parquet") for folder in ("streamed", "in-memory"))
        assert one.equals(two)
        record = json.loads((tmp_path / "streamed" / "build.json").read_text())
        assert record["quality"] is None
        assert record["data"]["split"] == "as given in parts: train.csv; other parts were not read"

    @pytest.mark.promise("full-disk-and-signals")
    def test_stopping_leaves_nothing(
        self, build: Cli, clicks_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waiting: list[str] = []

        def stop(*_: object) -> None:
            (partial,) = tmp_path.iterdir()
            waiting.extend(path.name for path in (partial / streamed_build.SCRATCH).iterdir())
            raise KeyboardInterrupt

        monkeypatch.setattr(streamed_build._PairsFile, "write", stop)
        done = build("built", "--data", clicks_file, "--out-of-core")
        assert (done.code, done.out) == (130, "")
        assert "stopped before the end; nothing was written" in done.err
        assert waiting == ["items"]
        assert list(tmp_path.iterdir()) == []

    def test_errors(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        done = build("built", "--data", "planted-clustered", "--out-of-core")
        assert (done.code, done.out) == (2, "")
        assert "build without --out-of-core, or give a file" in done.err
        done = build("built", "--data", clicks_file, "--out-of-core", "--split", "random")
        assert done.code == 2
        assert list(tmp_path.iterdir()) == []


def test_a_split_in_a_settings_file_is_refused(clicks_of_a_crowd: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[split]\nname = "random"\n')
    with pytest.raises(SettingsError, match="never from a split made on the way"):
        build_to_folder(clicks_of_a_crowd, tmp_path / "built", config=config)
