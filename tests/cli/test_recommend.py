from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Cli = Callable[..., Any]


def listed(out: str) -> list[str]:
    """The items of a table, best first."""
    return [line.split("│")[2].strip() for line in out.splitlines() if line.startswith("│")]


def test_a_known_user(command: Cli, fitted: Callable[[str], Any]) -> None:
    made = fitted("mf")
    done = command("recommend", made.folder, "--user", "u3", "-k", 4)
    assert (done.code, done.err) == (0, "")
    assert "For u3" in done.out
    assert listed(done.out) == [str(item) for item in made.model.recommend("u3", k=4)["item"]]
    known = command("recommend", made.folder, "--user", "u3", "-k", 4, "--exclude", "none")
    assert listed(known.out) == [str(item) for item in made.model.recommend("u3", k=4, exclude="none")["item"]]


def test_a_new_user(command: Cli, fitted: Callable[[str], Any]) -> None:
    made = fitted("ease")
    done = command("recommend", made.folder, "--items", "101,105", "--k", 3)
    assert listed(done.out) == [str(item) for item in made.model.recommend(items=[101, 105], k=3)["item"]]
    assert done.err == "the new user not in train: folded in from their items\n"
    assert "For a new user" in done.out


def test_a_user_nobody_knows(command: Cli, fitted: Callable[[str], Any]) -> None:
    made = fitted("mf")
    done = command("recommend", made.folder, "--user", "nobody")
    assert done.code == 0
    assert done.err == "nothing is known of user 'nobody': falling back to what is popular\n"
    assert listed(done.out) == [str(item) for item in made.model.recommend("nobody")["item"]]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_everybody_into_a_file(command: Cli, fitted: Callable[[str], Any], tmp_path: Path, suffix: str) -> None:
    made = fitted("mf")
    out = tmp_path / f"lists.{suffix}"
    done = command("recommend", made.folder, "--all", "-k", 3, "--out", out)
    assert (done.code, done.out) == (0, "")
    written = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out)
    expected = made.model.recommend(k=3)
    assert written["user", "rank", "item", "how"].rows() == expected["user", "rank", "item", "how"].rows()
    n_cold = expected.filter(how="folded in")["user"].n_unique()
    assert f"{n_cold} users not in train: folded in from their items" in done.err
    assert f"wrote {len(expected)} rows to {out}" in done.err
    assert list(tmp_path.iterdir()) == [out]


def test_numbers_as_ids(command: Cli, tmp_path: Path) -> None:
    data = tmp_path / "clicks.csv"
    data.write_text("user,item\n7,1\n7,2\n8,1\n8,3\n-9,4\n")
    assert (
        command("train", "--data", data, "--split", "none", "--model", "popular", "--out", tmp_path / "run").code == 0
    )
    assert listed(command("recommend", tmp_path / "run", "--user", "7").out) == ["3", "4"]
    assert listed(command("recommend", tmp_path / "run", "--user", "-9").out) == ["1", "2", "3"]
    assert "nothing is known of user '007'" in command("recommend", tmp_path / "run", "--user", "007").err


def test_someone_who_has_everything(command: Cli, tmp_path: Path) -> None:
    data = tmp_path / "clicks.csv"
    data.write_text("user,item\na,1\na,2\nb,1\n")
    command("train", "--data", data, "--split", "none", "--model", "popular", "--out", tmp_path / "run")
    done = command("recommend", tmp_path / "run", "--user", "a")
    assert done.code == 0
    assert "nothing is left to recommend to user 'a'" in done.err
    assert listed(done.out) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "say for whom"),
        (("--all", "--user", "u1"), "say for whom"),
        (("--all",), "--all needs --out"),
        (("--all", "--out", "lists.txt"), "--out must end in .parquet or .csv, got lists.txt"),
        (("--all", "--out", "nowhere/lists.csv"), "there is no folder"),
        (("--user", "u1", "-k", "0"), "-k"),
        (("--user", "u1", "-k", "x"), "-k"),
        (("--user", "u1", "--exclude", "al"), "exclude must be one of all, train, none, got 'al'"),
        (("--user", "u1", "--user", "u2"), "--user is given twice"),
        (("--user", "--items"), "--user needs a value, got --items"),
        (("--usr", "u1"), "--user"),
    ],
)
def test_settings_errors_come_before_the_model_is_read(command: Cli, words: tuple[str, ...], complaint: str) -> None:
    done = command("recommend", "no-such-run", *words)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err


def test_data_errors(command: Cli, fitted: Callable[[str], Any]) -> None:
    done = command("recommend", "no-such-run", "--user", "u1")
    assert (done.code, done.out) == (1, "")
    assert "no-such-run is not a run's folder" in done.err
    done = command("recommend", fitted("mf").folder, "--items", "101,nonsense")
    assert (done.code, done.out) == (1, "")
    assert "the first is 'nonsense'" in done.err


def test_a_file_that_cannot_be_written(command: Cli, fitted: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "lists.csv").mkdir()
    done = command("recommend", fitted("popular").folder, "--all", "--out", tmp_path / "lists.csv", "--overwrite")
    assert done.code == 2
    assert "is a folder; give --out the name of a file" in done.err
    assert list(tmp_path.iterdir()) == [tmp_path / "lists.csv"]


@pytest.mark.promise("nothing-overwritten")
@pytest.mark.parametrize("words", ["recommend {run} --all --out {out}.csv", "report {run} --out {out}.html"])
def test_a_file_that_is_there_is_replaced_only_if_asked(
    command: Cli, fitted: Callable[[str], Any], tmp_path: Path, words: str
) -> None:
    asked = words.format(run=fitted("popular").folder, out=tmp_path / "out").split()
    out = Path(asked[-1])
    out.write_text("mine")
    refused = command(*asked)
    assert refused.code == 2
    assert "exists already; give --overwrite to replace it" in refused.err
    assert out.read_text() == "mine"
    assert command(*asked, "--overwrite").code == 0
    assert out.read_text() != "mine"
