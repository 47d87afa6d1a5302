from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import out_of_core
from benchmarks._crowd import crowd
from pspns.out_of_core.streamed_build import build_to_folder

SIZE = 1_500, 1_200, 30_000


def test_a_crowd_has_exactly_the_pairs_asked_for_and_long_tails() -> None:
    pieces = list(crowd(50_000, 800, 400_000, seed=3))
    assert len(pieces) > 1
    users, items = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    assert len(np.unique(users * 800 + items)) == len(users) == 400_000
    degrees, popularity = np.bincount(users, minlength=50_000), np.bincount(items, minlength=800)
    assert len(degrees) == 50_000
    assert degrees.max() > 5 * degrees.mean()
    assert popularity.max() > 5 * np.median(popularity) > 0


def test_a_small_run_writes_its_figures(tmp_path: Path) -> None:
    report = out_of_core.run(SIZE, SIZE, tmp_path)
    report.write(tmp_path / "results", "out-of-core")
    found = json.loads((tmp_path / "results" / "out-of-core.json").read_text())
    figures = {row["what"]: row["figure"] for row in found["results"]}
    assert figures["pairs written"] > SIZE[2]
    assert 0 < figures["peak memory above it, MiB"] < 2048
    assert figures["together, s"] > 0
    assert "| pairs, s |" in (tmp_path / "results" / "out-of-core.md").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A source and the pairs that were built from it."""
    folder = tmp_path_factory.mktemp("built")
    out_of_core.write_crowd(folder / "source.parquet", *SIZE)
    build_to_folder(folder / "source.parquet", folder / "out", copies=out_of_core.COPIES)
    return folder / "source.parquet", pl.read_parquet(folder / "out" / "pairs.parquet")


class TestChecks:
    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            (lambda rows: rows.reverse(), "sorted"),
            (lambda rows: rows.with_columns(copies=pl.lit(1, pl.UInt8)), "copies"),
            (lambda rows: rows.with_columns(weight=pl.lit(2.0, pl.Float32)), "weight 1"),
            (lambda rows: rows.filter(pl.int_range(pl.len()) != rows["observed"].arg_max()), "those of the file"),
            (lambda rows: rows.filter(pl.col("observed") | (pl.col("user") != 5)), "as many items as they have"),
        ],
    )
    def test_find_what_is_wrong(
        self, built: tuple[Path, pl.DataFrame], tmp_path: Path, change: object, complaint: str
    ) -> None:
        source, rows = built
        rows.write_parquet(tmp_path / "pairs.parquet")
        assert out_of_core.check_pairs(source, tmp_path / "pairs.parquet", *SIZE)["pairs written"] == len(rows)
        assert callable(change)
        change(rows).write_parquet(tmp_path / "pairs.parquet")
        with pytest.raises(AssertionError, match=complaint):
            out_of_core.check_pairs(source, tmp_path / "pairs.parquet", *SIZE)

    def test_find_a_difference_to_the_build_in_memory(
        self, built: tuple[Path, pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, _ = built
        out_of_core.check_equal(source, tmp_path / "same")
        monkeypatch.setattr(
            out_of_core, "build_to_folder", lambda *_, **__: build_to_folder(source, tmp_path / "other", copies=4)
        )
        with pytest.raises(AssertionError, match="differ from those built in memory"):
            out_of_core.check_equal(source, tmp_path / "other")
