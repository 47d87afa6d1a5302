"""The benchmark of loading, with a small file: it compares before it times."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from benchmarks import loading


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ratings.csv"
    loading.write_ratings(path, 5_000)
    return path


def test_the_file_has_repeated_pairs_that_most_rows_are_not(path):
    frame = pl.read_csv(path)
    assert frame.columns == ["user", "item", "rating", "timestamp"]
    assert frame.height == 5_000
    assert 0.03 < 1 - frame.select("user", "item").n_unique() / 5_000 < 0.2


def test_both_sides_are_the_same_and_a_difference_is_seen(path):
    ours = loading.with_pspns(path)
    assert ours.matrix.nnz > 4_000
    assert ours.equals(loading.with_polars(path))
    assert not ours.equals(dataclasses.replace(ours, times=np.append(ours.times[:-1], 0)))
    assert not ours.equals(dataclasses.replace(ours, matrix=2 * ours.matrix))


def test_all_is_compared_and_timed(monkeypatch):
    compared = []
    equals = loading.Loaded.equals
    monkeypatch.setattr(loading.Loaded, "equals", lambda one, two: compared.append(one.matrix.nnz) or equals(one, two))
    reading, whole = loading.run(n_rows=3_000, pairs=1)
    assert len(compared) == 1
    assert compared[0] > 2_000
    assert (reading.pairs, whole.pairs) == (1, 1)
    assert "3,000 rows (peak memory" in whole.what
    assert reading.target == 1 / 4
    assert min(reading.ours_seconds, whole.reference_seconds) > 0


def test_a_wrong_answer_is_not_timed(monkeypatch):
    right = loading.with_pspns
    monkeypatch.setattr(
        loading, "with_pspns", lambda path: dataclasses.replace(right(path), user_ids=right(path).user_ids + 1)
    )
    with pytest.raises(AssertionError, match="give different answers"):
        loading.run(n_rows=2_000, pairs=1)
