from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_figures_are_those_of_the_record(command: Cli, fitted: Callable[[str], Any]) -> None:
    made = fitted("mf")
    before = json.loads((made.folder / "result.json").read_text())
    found = json.loads(command("evaluate", made.folder, "--k", "5,10", "--json").out)
    for key in ("valid", "test", "test_other_masks", "groups", "protocol", "data", "served_replica"):
        assert found[key] == before[key]


def test_the_table_shows_them_in_percent(command: Cli, fitted: Callable[[str], Any]) -> None:
    made = fitted("mf")
    done = command("evaluate", made.folder, "--k", 5)
    assert (done.code, done.err) == (0, "")
    test, other, valid = (
        f"{100 * part['recall@5']['mean']:.2f}"
        for part in (
            made.model.result["test"],
            made.model.result["test_other_masks"]["train"],
            made.model.result["valid"],
        )
    )
    (row,) = [line for line in done.out.splitlines() if line.startswith("│ Recall@5 ")]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["Recall@5", test, other, valid]
    assert "Recall@20" not in done.out
    assert "decile 10" in done.out
    assert "least active 20" in done.out


def test_a_warning_comes_with_figures_that_need_one(command: Cli, clicks_file: Any, tmp_path: Any) -> None:
    words = ("--model", "popular", "--no-baselines", "--protocol", "best-on-test", "--out", tmp_path / "run")
    assert command("train", "--data", clicks_file, *words).code == 0
    assert "the test chose the best step" in command("evaluate", tmp_path / "run").out


@pytest.mark.parametrize("k", ["0", "x", "5,,6", "-3", "1.5"])
def test_impossible_lengths_come_before_the_model_is_read(command: Cli, k: str) -> None:
    done = command("evaluate", "no-such-run", "--k", k)
    assert (done.code, done.out) == (2, "")
    assert "--k must be whole numbers" in done.err


def test_what_is_no_run(command: Cli, tmp_path: Any) -> None:
    done = command("evaluate", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "is not a run's folder" in done.err
