from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_runs_side_by_side(command: Cli, fitted: Callable[[str], Any]) -> None:
    mf, ease = fitted("mf"), fitted("ease")
    done = command("compare", mf.folder, ease.folder, "--metric", "recall@5", "--json")
    assert (done.code, done.err) == (0, "")
    (table,) = json.loads(done.out)
    means = {row["label"]: row["test"]["recall@5"] for row in table["rows"]}
    assert set(means) == {"mf", "ease", "svd", "popular"}
    assert means["mf"] == mf.model.result["test"]["recall@5"]["mean"]
    assert means["ease"] == ease.model.result["test"]["recall@5"]["mean"]
    assert list(means.values()) == sorted(means.values(), reverse=True)
    assert table["reference"] == table["rows"][0]["label"]
    best = means[table["reference"]]
    for difference in table["differences"]:
        assert difference["mean"] == pytest.approx(means[difference["label"]] - best)
        assert difference["low"] <= difference["mean"] <= difference["high"]


def test_the_table(command: Cli, fitted: Callable[[str], Any]) -> None:
    done = command("compare", fitted("mf").folder, fitted("ease").folder, "--metric", "recall@5")
    assert done.code == 0
    assert "in points, user by user" in done.out
    assert f"{100 * fitted('mf').model.result['test']['recall@5']['mean']:.2f}" in done.out


def test_runs_that_must_not_be_compared_get_tables_of_their_own(
    command: Cli, fitted: Callable[[str], Any], clicks_file: Path, tmp_path: Path
) -> None:
    words = ("--model", "popular", "--no-baselines", "--k", "5,10", "--protocol", "published")
    assert command("train", "--data", clicks_file, *words, "--out", tmp_path / "run").code == 0
    done = command("compare", fitted("popular").folder, tmp_path / "run", "--metric", "recall@5")
    assert "cannot be compared; here are 2 tables" in done.out


def test_refusals(command: Cli, fitted: Callable[[str], Any], tmp_path: Path) -> None:
    folder = fitted("mf").folder
    unknown = command("compare", folder, "--metric", "recal@5")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no metric named 'recal@5'" in unknown.err
    assert "did you mean 'recall@5'?" in unknown.err
    assert command("compare", folder, folder).code == 2
    assert command("compare").code == 2
    nowhere = command("compare", folder, tmp_path)
    assert (nowhere.code, nowhere.out) == (1, "")
    assert f"{tmp_path} is not a run's folder" in nowhere.err
