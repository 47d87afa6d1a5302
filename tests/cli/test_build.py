from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pspns
from pspns.api import build_positives

Cli = Callable[..., Any]
FILES = {"pairs.parquet", "users.parquet", "build.json"}


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "build.json").read_text())
    return record


@pytest.fixture(scope="module")
def parts(clicks: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clicks as a folder: every fifth row is held out."""
    folder = tmp_path_factory.mktemp("parts")
    number = pl.int_range(pl.len())
    clicks.filter(number % 5 != 0).write_csv(folder / "train.csv")
    clicks.filter(number % 10 == 0).write_csv(folder / "valid.csv")
    clicks.filter(number % 10 == 5).write_csv(folder / "test.csv")
    return folder


@pytest.fixture
def build(command: Cli, tmp_path: Path) -> Cli:
    """`pspns build` into tmp_path/built, with a rank that small data allow."""
    return lambda *words: command("build", "--out", tmp_path / "built", "--rank", 5, "--threads", 1, *words)


class TestBuilding:
    def test_every_row_of_a_file(self, build: Cli, clicks_file: Path, clicks: pl.DataFrame, tmp_path: Path) -> None:
        words = ("--data", clicks_file, "--copies", 3, "--sensitivity", 0.01, "--protocol", "strict")
        done = build(*words)
        assert done.code == 0, done.err
        out = tmp_path / "built"
        assert {path.name for path in out.iterdir()} == FILES
        expected = build_positives(clicks, rank=5, threads=1)
        pairs, users = pl.read_parquet(out / "pairs.parquet"), pl.read_parquet(out / "users.parquet")
        assert pairs.columns == ["user", "item", "copies", "weight", "observed", "global"]
        assert users.columns == ["user", "pairs", "weight"]
        assert pairs.equals(expected.frame())
        assert users.equals(expected.users())
        assert set(pairs.filter("observed").select("user", "item").rows()) == set(clicks.rows())
        facts = expected.facts
        assert f"positives: {len(pairs):,} pairs, {pairs['copies'].sum():,} visits an epoch" in done.out
        assert f"{facts['agreed']:,} agreed, {facts['injected']:,} injected, 0 dropped because held out" in done.out
        assert "two seeds of the SVD share 100.0 % of their proposals" in done.out
        assert f"wrote {out}" in done.err
        assert "warning" not in done.err
        # Of a file nothing is held out, and nobody knows the truth.
        assert "accuracy" not in done.out + done.err
        assert record_of(out)["quality"] is None

    def test_the_record(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        assert build("--data", clicks_file, "--data-seed", 3).code == 0
        record = record_of(tmp_path / "built")
        assert set(record["settings"]) == {"data", "positives", "weighting", "run"}
        assert record["settings"]["positives"]["rank"] == 5
        assert record["settings"]["run"]["data_seed"] == 3
        assert record["settings"]["data"]["source"] == record["data"]["source"] == str(clicks_file)
        assert len(record["data"]["fingerprint"]) == 64
        assert record["protocol"]["name"] == "strict"
        assert record["versions"]["pspns"] == pspns.__version__
        assert record["positives"]["svd"]["seed_agreement"] == 1

    def test_the_same_command_writes_the_same_bytes(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        words = ("--data", clicks_file, "--overwrite")
        assert build(*words).code == 0
        before = {name: (tmp_path / "built" / name).read_bytes() for name in FILES}
        assert build(*words).code == 0
        assert {name: (tmp_path / "built" / name).read_bytes() for name in FILES} == before

    def test_only_the_train_part_of_a_folder(self, build: Cli, parts: Path, tmp_path: Path) -> None:
        assert build("--data", parts).code == 0
        before = pl.read_parquet(tmp_path / "built" / "pairs.parquet")
        train = pl.read_csv(parts / "train.csv")
        assert set(before.filter("observed").select("user", "item").rows()) == set(train.rows())
        others = tmp_path / "others"
        others.mkdir()
        train.write_csv(others / "train.csv")
        for part in ("valid", "test"):
            (others / f"{part}.csv").write_text(f"user,item\nnew,{len(part)}\nu1,999\n")
        assert build("--data", others, "--overwrite").code == 0
        assert pl.read_parquet(tmp_path / "built" / "pairs.parquet").equals(before)

    def test_published_drops_what_is_held_out_and_warns(self, build: Cli, parts: Path, tmp_path: Path) -> None:
        assert build("--data", parts).code == 0
        strict = set(pl.read_parquet(tmp_path / "built" / "pairs.parquet").select("user", "item").rows())
        held_out = {row for part in ("valid", "test") for row in pl.read_csv(parts / f"{part}.csv").rows()}
        done = build("--data", parts, "--protocol", "published", "--overwrite")
        assert done.code == 0, done.err
        pairs = pl.read_parquet(tmp_path / "built" / "pairs.parquet").select("user", "item").rows()
        assert set(pairs) == strict - held_out
        dropped = len(strict & held_out)
        assert dropped > 0
        assert f"{dropped} dropped because held out" in done.out
        assert "warning: protocol published: held-out labels shape the candidate set" in done.err
        record = record_of(tmp_path / "built")
        assert record["positives"]["dropped_because_held_out"] == dropped
        assert record["protocol"]["warning"]
        # What was dropped cannot be found, so there is no estimate to print.
        assert record["quality"] is None
        assert "estimated" not in done.out

    def test_every_way_to_write_an_option(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        config = tmp_path / "build.toml"
        config.write_text(
            '[positives]\nneighbours = "fixed"\nneighbour_count = 4\n[weighting]\nname = "capped"\nsensitivity = 0.3\n'
            "[training]\nbatch_size = 7\n"
        )
        words = (
            "--config",
            config,
            "--positives.neighbour-count",
            6,
            "--sensitivity=0.2",
            "--columns=user=user,item=item",
        )
        done = build("--data", clicks_file, *words)
        assert done.code == 0, done.err
        settings = record_of(tmp_path / "built")["settings"]
        assert (settings["positives"]["neighbours"], settings["positives"]["neighbour_count"]) == ("fixed", 6)
        assert settings["weighting"] == {"name": "capped", "sensitivity": 0.2}
        assert settings["data"]["columns"] == {"user": "user", "item": "item"}
        n_proposed = pl.read_parquet(tmp_path / "built" / "pairs.parquet").filter("global")["user"].value_counts()
        assert set(n_proposed["count"]) == {6}

    def test_other_builders_and_recipes(
        self, command: Cli, clicks_file: Path, clicks: pl.DataFrame, tmp_path: Path
    ) -> None:
        words = ("--positives", "repeated", "--copies", 4, "--weighting", "none")
        done = command("build", "--data", clicks_file, *words, "--out", tmp_path / "a")
        assert done.code == 0, done.err
        assert done.out == f"positives: {len(clicks):,} pairs, {4 * len(clicks):,} visits an epoch\n"
        assert command("build", "--data", clicks_file, "--recipe", "plain", "--out", tmp_path / "b").code == 0
        assert record_of(tmp_path / "b")["settings"]["positives"] == {"name": "observed"}
        assert record_of(tmp_path / "b")["settings"]["weighting"] == {"name": "none"}


class TestQuality:
    @pytest.mark.parametrize("data", ["planted-low-rank", "planted-clustered", "planted-unstructured"])
    def test_planted_data_are_judged_exactly(self, command: Cli, data: str, tmp_path: Path) -> None:
        words = ("--data", data, "--positives", "observed", "--out", tmp_path / "built", "--threads", 1)
        done = command("build", *words)
        assert done.code == 0, done.err
        found = record_of(tmp_path / "built")["quality"]
        # A fifth of what is observed is no preference; the mean user likes 80 items, 16 of them observed.
        assert found["accuracy"] == pytest.approx(0.8, abs=1e-4)
        assert found["coverage"] == pytest.approx(0.2, abs=0.03)
        assert found["is_exact"] is True
        assert "accuracy 80.00 %, coverage" in done.out
        assert "exact" in done.out

    def test_a_file_that_is_called_like_a_planted_set_is_a_file(
        self, command: Cli, clicks_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("planted-clustered").write_bytes(clicks_file.read_bytes())
        done = command("build", "--data", "planted-clustered", "--format", "delimited", "--rank", 5, "--out", "built")
        assert done.code == 0, done.err
        assert record_of(Path("built"))["quality"] is None

    def test_a_folder_gives_an_estimate_that_says_what_it_is(self, build: Cli, parts: Path, tmp_path: Path) -> None:
        done = build("--data", parts)
        pairs = pl.read_parquet(tmp_path / "built" / "pairs.parquet")
        held_out = {row for part in ("valid", "test") for row in pl.read_csv(parts / f"{part}.csv").rows()}
        injected = pairs.filter(~pl.col("observed")).select("user", "item").rows()
        hits = len(held_out & set(injected))
        found = record_of(tmp_path / "built")["quality"]
        assert found == {
            "accuracy": pytest.approx(hits / len(injected)),
            "coverage": pytest.approx(hits / len(held_out)),
            "is_exact": False,
        }
        assert f"estimated: {100 * hits / len(injected):.2f} % of the injected pairs are held out" in done.out
        assert "never for choosing" in done.out


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (("--positives.rank", "x"), "--rank is given twice, the second time as --positives.rank"),
            (("--neighbors", "fixed"), "no option named '--neighbors' (did you mean '--neighbours'?)"),
            (("--neighbours", "some"), "--neighbours must be one of degree, fixed, share, got 'some'"),
            (("--copies", 0), "--copies must be between 1 and 255, got 0"),
            (("--copies", 256), "--copies must be between 1 and 255, got 256"),
            (("--copies", 1.5), "--copies must be a whole number"),
            (("--sensitivity", 0), "--sensitivity must be a finite number above 0, got 0"),
            (("--sensitivity", "nan"), "--sensitivity must be"),
            (("--copies", "--overwrite"), "--copies needs a value, got --overwrite"),
            (("--positives", "pps"), "--positives: no positives named 'pps'"),
            (("--positives", "observed"), "--rank is a setting of positives agreement or global or"),
            (("--weighting", "none", "--sensitivity", 1), "--sensitivity is a setting of weighting capped or"),
            (("--protocol", "strikt"), "did you mean 'strict'?"),
            (("--recipe", "papr"), "no recipe named 'papr'"),
            (("--batch-size", 5), "the command line: [training] has no part in building positives"),
            (("--split", "random"), "the command line: [split] has no part in building positives"),
            (("--config", "none.toml"), "none.toml: cannot be read: No such file"),
            (("--device", "tpu"), "no device named 'tpu'"),
            (("stray",), "'stray' was not expected"),
        ],
    )
    def test_settings_errors(self, build: Cli, tmp_path: Path, words: tuple[Any, ...], complaint: str) -> None:
        done = build("--data", "no-such-file.csv", *words)
        assert (done.code, done.out) == (2, "")
        assert complaint in done.err
        assert done.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_published_needs_a_folder(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        for data in (clicks_file, "planted-clustered"):
            done = build("--data", data, "--protocol", "published")
            assert (done.code, done.out) == (2, "")
            assert (
                "protocol published drops held-out pairs, so it needs a folder with train, valid and test" in done.err
            )
        assert list(tmp_path.iterdir()) == []

    def test_data_errors(self, build: Cli, tmp_path: Path) -> None:
        done = build("--data", "planted-clusterd")
        assert (done.code, done.out) == (1, "")
        assert "did you mean 'planted-clustered'?" in done.err
        assert list(tmp_path.iterdir()) == []

    def test_no_data_and_no_place(self, build: Cli, command: Cli) -> None:
        done = build()
        assert done.code == 2
        assert "there are no data; say which with --data" in done.err
        done = command("build", "--data", "planted-clustered")
        assert done.code == 2
        assert "--out" in done.err

    def test_a_rank_that_the_data_do_not_have(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        done = command("build", "--data", clicks_file, "--rank", 1000, "--out", tmp_path / "new" / "built")
        assert (done.code, done.out) == (2, "")
        assert "rank must be at most min(n_users, n_items) = 40, got 1000" in done.err
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.promise("nothing-overwritten")
    def test_only_a_build_is_overwritten_and_only_if_asked(self, build: Cli, clicks_file: Path, tmp_path: Path) -> None:
        words = ("--data", clicks_file)
        assert build(*words).code == 0
        done = build(*words, "--copies", 9)
        assert done.code == 2
        assert "exists already; choose another --out, or say --overwrite" in done.err
        assert record_of(tmp_path / "built")["settings"]["positives"]["copies"] == 3
        assert build(*words, "--copies", 9, "--overwrite").code == 0
        assert record_of(tmp_path / "built")["settings"]["positives"]["copies"] == 9
        assert [path.name for path in tmp_path.iterdir()] == ["built"]
        (tmp_path / "built" / "mine.txt").write_text("mine")
        done = build(*words, "--overwrite")
        assert done.code == 2
        assert "it holds mine.txt, which no build wrote" in done.err

    @pytest.mark.promise("nothing-overwritten")
    def test_a_run_is_no_build_and_a_build_no_run(
        self, build: Cli, command: Cli, clicks_file: Path, tmp_path: Path
    ) -> None:
        train = ("train", "--data", clicks_file, "--model", "popular", "--no-baselines", "--out", tmp_path / "built")
        assert command(*train).code == 0
        done = build("--data", clicks_file, "--overwrite")
        assert done.code == 2
        assert "it has no build.json, so it is no build" in done.err
        assert (tmp_path / "built" / "result.json").exists()
        assert command("build", "--data", clicks_file, "--rank", 5, "--out", tmp_path / "b").code == 0
        done = command(*train[:-1], tmp_path / "b", "--overwrite")
        assert done.code == 2
        assert "it has no result.json, so it is no run" in done.err

    @pytest.mark.promise("full-disk-and-signals")
    def test_stopping_leaves_nothing(
        self, build: Cli, clicks_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("pspns.cli.build.build_from", stop)
        done = build("--data", clicks_file)
        assert (done.code, done.out) == (130, "")
        assert "stopped before the end; nothing was written" in done.err
        assert list(tmp_path.iterdir()) == []


def test_help_names_the_options_of_the_paper(command: Cli) -> None:
    shown = command("build", "-h").out
    for option in ("--rank", "--copies", "--sensitivity", "--positives", "--weighting", "--protocol", "--out"):
        assert option in shown
