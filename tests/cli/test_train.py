from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pspns.cli.rest import parse_rest
from pspns.errors import SettingsError

Cli = Callable[..., Any]
QUICK = ("--steps", 5, "--threads", 1, "--no-baselines", "--embedding-size", 4)


def settings_of(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / "result.json").read_text())["settings"]
    return settings


class TestTraining:
    def test_a_run_from_a_file_to_a_table(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        words = ("--data", clicks_file, "--model", "mf", "--recipe", "plain", "--protocol", "strict", "--seeds", "0-2")
        done = command("train", *words, "--data-seed", 3, "--k", "5,10", "--steps", 10, "--threads", 1, "--out", out)
        assert done.code == 0, done.err
        for model in ("mf", "popular", "svd", "ease"):
            assert f"│ {model} " in done.out
        assert "Test, protocol strict, in percent" in done.out
        assert "3 seeds" in done.out
        assert f"wrote {out}" in done.err
        assert "columns: user = 'user', item = 'item'" in done.err
        result = json.loads((out / "result.json").read_text())
        assert result["seeds"] == [0, 1, 2]
        assert result["settings"]["run"]["data_seed"] == 3
        assert result["data"]["split"].endswith("data seed 3")
        assert set(result["seconds"]) >= {"load", "split", "training"}

    def test_every_way_to_write_an_option(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        config = tmp_path / "run.toml"
        config.write_text("[training]\nbatch_size = 100\npatience = 4\nl2 = 0.5\n[run]\nseeds = [5]\n")
        words = ("--config", config, "--training.batch-size", 200, "--l2=0.25", "--start", "normal", "--spread", 0.5)
        done = command("train", "--data", clicks_file, "--out", tmp_path / "run", *words, *QUICK)
        assert done.code == 0, done.err
        settings = settings_of(tmp_path / "run")
        training = settings["training"]
        assert (training["batch_size"], training["patience"], training["l2"]) == (200, 4, 0.25)
        assert settings["start"] == {"name": "normal", "spread": 0.5}
        assert settings["run"]["seeds"] == [5]
        assert settings["run"]["baselines"] is False

    def test_refitting_on_everything(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        done = command("train", "--data", clicks_file, "--split", "none", "--out", out, *QUICK)
        assert (done.code, done.out) == (0, "")
        assert json.loads((out / "result.json").read_text())["data"]["test"] == 0
        evaluated = command("evaluate", out)
        assert evaluated.code == 2
        assert "has no test part" in evaluated.err
        assert command("recommend", out, "--user", "u1").code == 0

    def test_a_warning_comes_with_figures_that_need_one(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        words = ("--protocol", "published", "--out", tmp_path / "run", *QUICK)
        done = command("train", "--data", clicks_file, *words)
        assert "warning: protocol published: held-out labels shape the candidate set" in done.err
        assert "must not be compared with strict ones" in done.out


class TestPositives:
    def test_the_recipe_of_the_paper(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        done = command("train", "--data", clicks_file, "--recipe", "paper", "--rank", 5, "--out", out, *QUICK)
        assert done.code == 0, done.err
        result = json.loads((out / "result.json").read_text())
        settings, facts = result["settings"], result["positives"]
        assert {key: settings["positives"][key] for key in ("name", "rank", "copies", "neighbours")} == {
            "name": "psp",
            "rank": 5,
            "copies": 3,
            "neighbours": "degree",
        }
        assert settings["weighting"] == {"name": "log", "sensitivity": 0.01}
        assert facts["observed"] == result["data"]["train"]
        assert facts["pairs"] == facts["observed"] + facts["injected"]
        assert facts["visits_an_epoch"] == facts["pairs"] + 2 * facts["agreed"]
        assert facts["injected"] > 0
        assert facts["dropped_because_held_out"] == 0
        assert facts["svd"] == {
            "rank": 5,
            "computed_rank": 5,
            "exact": True,
            "oversampling": None,
            "power_passes": None,
            "seed_agreement": 1.0,
        }
        assert f"{facts['agreed']:,} agreed, {facts['injected']:,} injected" in done.err

    def test_parts_chosen_one_by_one(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        words = ("--positives", "psp", "--weighting", "log", "--copies", 2, "--positives.rank", 4, "--sensitivity", 0.5)
        done = command("train", "--data", clicks_file, *words, "--out", tmp_path / "run", *QUICK)
        assert done.code == 0, done.err
        settings = settings_of(tmp_path / "run")
        assert (settings["positives"]["copies"], settings["positives"]["rank"]) == (2, 4)
        assert settings["weighting"] == {"name": "log", "sensitivity": 0.5}
        facts = json.loads((tmp_path / "run" / "result.json").read_text())["positives"]
        assert facts["visits_an_epoch"] == facts["pairs"] + facts["agreed"]

    def test_positives_change_what_is_learned(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        figures = []
        for words in (("--positives", "observed"), ("--positives", "psp", "--rank", 4), ("--weighting", "log")):
            out = tmp_path / f"run{len(figures)}"
            done = command("train", "--data", clicks_file, *words, "--learning-rate", 0.1, "--out", out, *QUICK)
            assert done.code == 0, done.err
            figures.append(json.loads((out / "result.json").read_text())["test"])
        assert figures[0] != figures[1]
        assert figures[0] != figures[2]

    @pytest.mark.parametrize("protocol", ["strict", "published"])
    def test_judging_again_gives_the_same_figures(
        self, command: Cli, clicks_file: Path, tmp_path: Path, protocol: str
    ) -> None:
        words = ("--recipe", "paper", "--rank", 5, "--protocol", protocol, "--seeds", "0,1", "--k", "5,20")
        done = command("train", "--data", clicks_file, *words, "--out", tmp_path / "run", *QUICK)
        assert done.code == 0, done.err
        before = json.loads((tmp_path / "run" / "result.json").read_text())
        after = json.loads(command("evaluate", tmp_path / "run", "--k", "5,20", "--json").out)
        for key in ("valid", "test", "test_other_masks", "groups", "protocol", "data", "positives"):
            assert after[key] == before[key]
        # The mask of published holds the constructed pairs, so it is felt in the figures.
        assert (before["positives"]["dropped_because_held_out"] > 0) == (protocol == "published")
        assert before["test"] != before["test_other_masks"]["train"]

    def test_settings_of_another_builder_are_refused(self, command: Cli, tmp_path: Path) -> None:
        done = command("train", "--data", "no-such-file.csv", "--out", tmp_path / "run", "--copies", 2)
        assert done.code == 2
        assert "--copies is a setting of positives agreement or psp or repeated, but positives is observed" in done.err
        done = command("train", "--data", "no-such-file.csv", "--out", tmp_path / "run", "--sensitivity", 2)
        assert done.code == 2
        assert "but weighting is none; choose" in done.err


class TestNegatives:
    def test_chosen_with_their_settings(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        words = (
            "--model",
            "lightgcn",
            "--negatives",
            "dns",
            "--negatives.candidates",
            7,
            "--positives",
            "psp",
            "--rank",
            4,
        )
        done = command("train", "--data", clicks_file, *words, "--out", tmp_path / "run", *QUICK)
        assert done.code == 0, done.err
        assert settings_of(tmp_path / "run")["negatives"] == {"name": "dns", "candidates": 7, "frozen_scores": False}

    @pytest.mark.parametrize("name", ["mixgcf", "dens"])
    def test_those_meant_for_graphs_work_without_one(
        self, command: Cli, clicks_file: Path, tmp_path: Path, name: str
    ) -> None:
        words = ("--model", "mf", "--negatives", name, "--negatives.candidates", 3)
        done = command("train", "--data", clicks_file, *words, "--out", tmp_path / "run", *QUICK)
        assert done.code == 0, done.err
        assert "warning" not in done.err.lower()
        assert settings_of(tmp_path / "run")["negatives"]["name"] == name


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (("--batch-sise", 5), "no option named '--batch-sise' (did you mean '--batch-size'?)"),
            (("--batch-size", "abc"), "--batch-size must be a whole number, got 'abc'"),
            (("--training.batch-size=0",), "--training.batch-size must be at least 1, got 0"),
            (("--batch-size",), "--batch-size needs a value: a whole number"),
            (("--batch-size", "--l2", 3), "--batch-size needs a value: a whole number"),
            (("--batch-sise",), "no option named '--batch-sise'"),
            (("--seeds", "--steps", 3), "--seeds needs a value, got --steps"),
            (("--l2", 1, "--l2", 2), "--l2 is given twice"),
            (("--seeds", 1, "--seeds", 2), "--seeds is given twice"),
            (("--seeds", 1, "--run.seeds", 2), "--seeds is given twice, the second time as --run.seeds"),
            (("--overwrite", "--overwrite"), "--overwrite is given twice"),
            (("--data-seed", "x"), "--data-seed must be a whole number, got 'x'"),
            (("--model", "mff"), "--model: no models named 'mff'"),
            (("--protocol", "strikt"), "did you mean 'strict'?"),
            (("--recipe", "plian"), "no recipe named 'plian'"),
            (
                ("--model", "popular", "--negatives", "dns"),
                "popular has no training loop, so [negatives] dns has no effect",
            ),
            (("--select-by", "recal@20"), "did you mean 'recall'?"),
            (("--device", "tpu"), "no device named 'tpu'"),
            (("--config", "none.toml"), "none.toml: cannot be read: No such file"),
            (("stray",), "'stray' was not expected"),
            (("-z", 5), "'-z' was not expected"),
            (("--", "--l2"), "--l2 needs a value"),
        ],
    )
    def test_settings_errors(self, command: Cli, tmp_path: Path, words: tuple[Any, ...], complaint: str) -> None:
        # The data do not exist: of that nothing is heard, because settings are checked first.
        done = command("train", "--data", "no-such-file.csv", "--out", tmp_path / "run", *words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("pspns: error: ")
        assert complaint in done.err
        assert done.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_data_errors(self, command: Cli, tmp_path: Path) -> None:
        done = command("train", "--data", "planted-clusterd", "--out", tmp_path / "run")
        assert (done.code, done.out) == (1, "")
        assert "did you mean 'planted-clustered'?" in done.err
        assert list(tmp_path.iterdir()) == []

    def test_no_data(self, command: Cli, tmp_path: Path) -> None:
        done = command("train", "--out", tmp_path / "run")
        assert done.code == 2
        assert "there are no data; say which with --data" in done.err

    @pytest.mark.parametrize("words", [(), ("--out",)])
    def test_no_place(self, command: Cli, words: tuple[str, ...]) -> None:
        done = command("train", *words)
        assert done.code == 2
        assert "--out" in done.err

    @pytest.mark.promise("nothing-overwritten")
    def test_a_place_that_is_taken(self, command: Cli, tmp_path: Path, clicks_file: Path) -> None:
        taken = tmp_path / "run"
        taken.mkdir()
        (taken / "mine.txt").write_text("mine")
        done = command("train", "--data", clicks_file, "--out", taken)
        assert done.code == 2
        assert f"{taken} exists already" in done.err
        done = command("train", "--data", clicks_file, "--out", taken, "--overwrite")
        assert done.code == 2
        assert "it has no result.json, so it is no run" in done.err
        assert (taken / "mine.txt").read_text() == "mine"

    @pytest.mark.promise("nothing-overwritten")
    def test_overwriting_a_run(self, command: Cli, tmp_path: Path, clicks_file: Path) -> None:
        words = ("train", "--data", clicks_file, "--out", tmp_path / "run", "--model", "popular", "--no-baselines")
        assert command(*words).code == 0
        assert command(*words).code == 2
        assert command(*words, "--overwrite", "--data-seed", 9).code == 0
        assert settings_of(tmp_path / "run")["run"]["data_seed"] == 9
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_a_bug_gives_a_traceback(self, command: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def break_down(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr("pspns.cli.train.load_data", break_down)
        with pytest.raises(ZeroDivisionError, match="a bug"):
            command("train", "--data", "x", "--out", tmp_path / "run")
        assert list(tmp_path.iterdir()) == []


def test_parse_rest() -> None:
    assert parse_rest(["--a.b", "1", "--c=x=y", "--d", "-5", "--e", "--f="]) == {
        "a.b": "1",
        "c": "x=y",
        "d": "-5",
        "e": "",
        "f": "",
    }
    with pytest.raises(SettingsError, match="given twice"):
        parse_rest(["--a", "1", "--a=2"])


@pytest.mark.promise("full-disk-and-signals")
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_being_stopped_in_the_midst_of_training(tmp_path: Path, number: signal.Signals, exit_code: int) -> None:
    out = tmp_path / "new" / "run"
    words = ["train", "--data", "planted-clustered", "--out", str(out), "--threads", "1", "--steps", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pspns", *words, "--evaluate-every", "5", "--embedding-size", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("step "):
                break
        assert any(path.name.startswith(".run.") for path in out.parent.iterdir())
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == exit_code
    assert output == ""
    told = errors.splitlines()[-1]
    assert told.startswith(f"pspns: error: stopped before the end; what was trained is kept in {out}.unfinished")
    assert "Traceback" not in errors
    assert [path.name for path in out.parent.iterdir()] == ["run.unfinished"]


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(command, clicks_file, tmp_path):
    done = command("train", "--data", clicks_file, "--model", "lightgcn", "--out", tmp_path / "x", "--dry-run")
    assert done.code == 0
    assert "one step of 1 replica" in done.out
    assert "training to the limit of 200,000 steps: about" in done.out
    assert "memory on" in done.out
    assert list(tmp_path.iterdir()) == []
