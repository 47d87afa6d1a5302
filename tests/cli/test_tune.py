"""`pspns tune`: from names of methods to a table, a folder and settings that train."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_server import Server

import pspns
from pspns.errors import SettingsError
from pspns.method_options import read_search, resolve_methods
from pspns.options import Layer
from pspns.search_space import Choices, Span

Cli = Callable[..., Any]
QUICK = ("--max-steps", 40, "--evaluate-every", 10, "--patience", 2, "--embedding-size", 4, "--batch-size", 128)
SEARCH = ("--search", "positives.rank=3,6", "--search", "training.learning-rate=0.02,0.05")
HOW = (*QUICK, *SEARCH, "--threads", 1, "--k", "5,10", "--select-by", "recall@5")


def words(data: object, out: Path, *more: object, methods: str = "plain,paper", trials: int = 3) -> tuple[object, ...]:
    return ("tune", "--data", data, "--methods", methods, "--trials", trials, "--out", out, *HOW, *more)


def files(out: Path) -> dict[str, Any]:
    """All that was written but for seconds."""
    trials = {path.name: json.loads(path.read_text()) for path in (out / "trials").iterdir()}
    texts = {path.name: path.read_text() for path in (*(out / "best").iterdir(), out / "summary.json")}
    return {**{name: {**trial, "seconds": None} for name, trial in trials.items()}, **texts}


class TestTuning:
    def test_from_a_file_to_a_table_to_a_run(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "tuned"
        done = command(*words(clicks_file, out, "--seeds", "0-1", "--at-once", 2))
        assert done.code == 0, done.err
        assert "recall@5 on validation, protocol strict, in percent" in done.out
        assert f"wrote {out}" in done.err
        assert "columns: user = 'user', item = 'item'" in done.err
        assert "recall@5 on validation, the best of the loop," in done.err
        assert sorted(path.name for path in out.iterdir()) == ["best", "study.json", "summary.json", "trials"]
        assert len(list((out / "trials").iterdir())) == 6
        summary = json.loads((out / "summary.json").read_text())["methods"]
        winner = max(summary, key=lambda method: summary[method]["best"]["mean"])
        advice = f"pspns train --config {out / 'best' / winner}.toml --out RUN"
        assert f"Nothing of the test was looked at. To train the winner and judge it on the test: {advice}" in done.out
        for method, found in summary.items():
            assert f"│ {method} " in done.out
            assert f"{100 * found['best']['mean']:.2f}" in done.out
            run = tmp_path / f"run-{method}"
            trained = command("train", "--config", out / "best" / f"{method}.toml", "--out", run)
            assert trained.code == 0, trained.err
            result = json.loads((run / "result.json").read_text())
            assert result["valid"]["recall@5"] == found["best"]
            assert set(result["baselines"]) == {"popular", "svd", "ease"}

    def test_python_does_the_same(self, command: Cli, clicks: pl.DataFrame, clicks_file: Path, tmp_path: Path) -> None:
        done = command(*words(clicks_file, tmp_path / "typed", methods="paper", trials=2))
        assert done.code == 0, done.err
        tuned = pspns.tune(
            clicks,
            methods="paper",
            trials=2,
            out=tmp_path / "called",
            search={"positives.rank": [3, 6], "learning_rate": (0.02, 0.05)},
            max_steps=40,
            evaluate_every=10,
            patience=2,
            embedding_size=4,
            batch_size=128,
            threads=1,
            k=(5, 10),
            select_by="recall@5",
        )
        best = tuned.best["paper"]
        summary = json.loads((tmp_path / "typed" / "summary.json").read_text())["methods"]["paper"]
        assert (best.values, best.value) == (summary["values"], summary["best"]["mean"])
        assert [trial.number for trial in tuned.trials["paper"]] == [1, 2]
        model = pspns.fit(clicks, config=tmp_path / "called" / "best" / "paper.toml", baselines=False)
        assert model.result["valid"]["recall@5"]["mean"] == best.value

    def test_a_sampler_from_elsewhere(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        method, stem = "paper + negatives_for_tests:LowestNegatives", "paper+negatives_for_tests.LowestNegatives"
        done = command(*words(clicks_file, tmp_path / "tuned", methods=method, trials=1))
        assert done.code == 0, done.err
        best = tmp_path / "tuned" / "best" / f"{stem}.toml"
        assert f"pspns train --config {best}" in done.out
        trial = json.loads((tmp_path / "tuned" / "trials" / f"{stem}-001.json").read_text())
        assert trial["method"] == "paper+negatives_for_tests:LowestNegatives"
        assert trial["settings"]["negatives"] == {"name": "negatives_for_tests:LowestNegatives"}
        trained = command("train", "--config", best, "--no-baselines", "--out", tmp_path / "run")
        assert trained.code == 0, trained.err
        result = json.loads((tmp_path / "run" / "result.json").read_text())
        assert result["valid"]["recall@5"]["mean"] == trial["value"]

    def test_denoisers_with_their_losses(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "tuned"
        done = command(*words(clicks_file, out, methods="plain+deca,t-ce+paper", trials=1))
        assert done.code == 0, done.err
        for method, loss in (("plain+deca", "bce"), ("t-ce+paper", "bpr")):
            trial = json.loads((out / "trials" / f"{method}-001.json").read_text())
            assert trial["failed"] is None
            assert trial["settings"]["training"]["loss"] == loss
            assert trial["settings"]["denoiser"]["name"] in method.split("+")
            assert any(name.startswith("denoiser.") for name in trial["values"])
        best = out / "best" / "plain+deca.toml"
        trained = command("train", "--config", best, "--no-baselines", "--out", tmp_path / "run")
        assert trained.code == 0, trained.err
        valid = json.loads((tmp_path / "run" / "result.json").read_text())["valid"]
        found = json.loads((out / "summary.json").read_text())["methods"]["plain+deca"]
        assert valid["recall@5"] == found["best"]

    def test_more_trials(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        outs = tmp_path / "whole", tmp_path / "grown"
        for out, trials in zip(outs, (4, 2), strict=True):
            assert command(*words(clicks_file, out, "--at-once", 2, methods="paper", trials=trials)).code == 0
        done = command(*words(clicks_file, outs[1], "--at-once", 2, "--resume", methods="paper", trials=4))
        assert done.code == 0, done.err
        assert "trials 1 to 2 of 4: 0 to train" in done.err
        assert files(outs[0]) == files(outs[1])

    def test_the_protocol_of_the_paper_comes_with_its_warning(
        self, command: Cli, clicks_file: Path, tmp_path: Path
    ) -> None:
        done = command(*words(clicks_file, tmp_path / "tuned", "--protocol", "published", methods="paper", trials=1))
        assert done.code == 0, done.err
        assert "warning: protocol published: held-out labels shape the candidate set" in done.err
        assert "Nothing of the test" not in done.out
        assert "protocol published, in percent" in done.out

    def test_a_method_that_cannot_be_trained(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        search = (*QUICK, "--search", "rank=1000,2000", "--threads", 1)
        start = ("tune", "--data", clicks_file, "--methods", "paper,plain", "--trials", 2, "--out", tmp_path / "tuned")
        done = command(*start, *search)
        assert done.code == 0
        assert "method paper: no trial could be trained, the last because: rank must be at most" in done.err
        assert "all trials failed" in done.out
        assert f"{tmp_path / 'tuned' / 'best' / 'plain'}.toml" in done.out

    def test_lightgcn_and_a_settings_file(self, command: Cli, clicks_file: Path, tmp_path: Path) -> None:
        config = tmp_path / "common.toml"
        config.write_text(
            f'[data]\nsource = "{clicks_file}"\n[run]\nseeds = [4]\n[model]\nname = "lightgcn"\nlayers = 1\n'
        )
        start = ("tune", "--config", config, "--methods", "plain", "--trials", 2, "--out", tmp_path / "tuned")
        done = command(*start, *QUICK, "--search", "layers=1,2", "--threads", 1)
        assert done.code == 2
        assert f"{config}: model.layers is searched for method plain" in done.err
        done = command(*start, *QUICK, "--threads", 1)
        assert done.code == 0, done.err
        trial = json.loads((tmp_path / "tuned" / "trials" / "plain-001.json").read_text())
        assert trial["settings"]["model"] == {"name": "lightgcn", "embedding_size": 4, "layers": 1, "graph": "train"}
        assert list(trial["curve"]) == ["4"]


@pytest.fixture(scope="module")
def untouched(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("untouched") / "tuned"
    job = server.run(*words(clicks_file, out, "--checkpoint-seconds", 0))
    assert job.wait() == 0, job.text
    return out


class TestStopped:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
    def test_and_resumed(
        self, server: Server, clicks_file: Path, untouched: Path, tmp_path: Path, number: signal.Signals, code: int
    ) -> None:
        out = tmp_path / "tuned"
        given = words(clicks_file, out, "--checkpoint-seconds", 0)
        # Looking at validation made slow, so that the signal finds the second loop in training.
        job = server.start(*given, delays={"pspns.training.stopping.Evaluation": 0.1})
        job.wait_for("step 20 ", times=2)
        job.send(number)
        assert job.wait() == code, job.text
        if number == signal.SIGINT:
            assert job.last_line == (
                f"pspns: error: stopped before the end; the trials so far are kept in {out}: "
                "give the same command with --resume to go on"
            )
        assert "Traceback" not in job.text
        assert 0 < len(list((out / "trials").iterdir())) < 6
        assert list((tmp_path / "tuned.unfinished").rglob("step-*"))
        done = server.run(*given, "--resume")
        assert done.wait() == 0, done.text
        assert "going on after step" in done.text
        assert files(out) == files(untouched)
        assert [path.name for path in tmp_path.iterdir()] == ["tuned"]

    def test_before_anything_was_written(self, server: Server, clicks_file: Path, tmp_path: Path) -> None:
        job = server.start(*words(clicks_file, tmp_path / "tuned"), delays={"pspns.cli.tune.load_data": 600})
        job.wait_for("waiting in")
        job.send(signal.SIGINT)
        assert job.wait() == 130
        assert job.last_line == f"pspns: error: stopped before the end; nothing was written to {tmp_path / 'tuned'}"
        assert list(tmp_path.iterdir()) == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("more", "complaint"),
        [
            (("--methods", "plan"), "no recipe or negatives or denoiser named 'plan'; available: "),
            (("--methods", "plain,plain"), "method plain is given twice"),
            (("--methods", "plain,uniform"), "methods plain and uniform are the same; leave one out"),
            (("--methods", "plain,,paper"), "named ''"),
            (("--trials", 0), "trials must be at least 1, got 0"),
            (("--at-once", 0), "at_once must be at least 1"),
            (("--l2", 0.1), "--l2 is searched for method plain; leave it out, or say with --search l2=… what"),
            (("--training.learning-rate=0.1",), "--training.learning-rate is searched for method plain"),
            (("--copies", 3), "--copies is a setting of positives"),
            (("--negatives", "uniform"), "--negatives is what methods differ in; name it among the methods"),
            (("--denoiser", "dcf"), "--denoiser is what methods differ in; name it among the methods"),
            (("--drop-rate", 0.1), "--drop-rate is a setting that not every method has; say with --search drop-rate=…"),
            (("--alpha", 1), "--alpha is a setting that not every method has"),
            (("--methods", "plain,none"), "methods plain and none are the same; leave one out"),
            (("--methods", "deca", "--loss", "bpr"), "loss must be bce with [denoiser] deca as it is set, got bpr"),
            (("--methods", "deca+mixgcf"), "[denoiser] deca needs negatives that are items"),
            (("--select-by", "valid-loss"), "select_by = valid-loss cannot choose between trials"),
            (
                ("--candidates", 3),
                "--candidates is a setting that not every method has; say with --search candidates=…",
            ),
            (("--protocol", "best-on-test"), "best-on-test has no validation part"),
            (("--model", "ease"), "model ease has no training loop to tune; use lightgcn or mf"),
            (
                ("--methods", "dns,paper", "--model", "ease"),
                "model ease has no training loop to tune; use lightgcn or mf",
            ),
            (("--methods", "paper + dns,paper+dns"), "method paper+dns is given twice"),
            (("--methods", "mine:Mine"), "method mine:Mine: negatives: cannot import negatives 'mine:Mine': No module"),
            (
                ("--methods", "denoiser=mine:Mine"),
                "method denoiser=mine:Mine: denoiser: cannot import denoisers 'mine:Mine': No module",
            ),
            (("--batch-sise", 5), "did you mean '--batch-size'?"),
            (("--recipe", "paper"), "no option named '--recipe'"),
            (("--search", "l3=1"), "search l3: no method has such a setting"),
            (("--search", "trainig.l2=1"), "(did you mean 'training.l2'?)"),
            (("--search", "max-steps=1,2"), "how long a trial may train is the same for all"),
            (("--search", "seeds=1,2"), "no method has such a setting"),
            (("--search", "l2"), "--search must be a setting and its values, such as l2=1e-5,1e-4, got 'l2'"),
            (("--search", "l2=1", "--search", "l2=2"), "--search l2 is given twice"),
            (("--search", "l2=8,"), "--search l2 must be values with commas between them, such as 1 or 1,2, got '8,'"),
            (("--search", "l2=1,x"), "--search l2: each value must be a finite number, got 'x'"),
            (
                ("--methods", "dns-m-n", "--search", "best=20,300"),
                "--search: negatives.best = 300 goes with nothing that is tried of negatives.candidates; the last "
                "said: best must be at most candidates (200), got 300",
            ),
            (("--search", "l2=-1"), "--search: l2 must be at least 0, got -1"),
            (("--search", "l2=1,1.0"), "search l2: a choice needs distinct values"),
            (
                ("--search", "embedding-size=4,0"),
                "search: embedding_size must be at least 1, got 0",
            ),
            (("--overwrite", "--resume"), "say one of them"),
            (("--seed", -1), "seed must be a whole number"),
        ],
    )
    def test_settings_errors(self, command: Cli, tmp_path: Path, more: tuple[Any, ...], complaint: str) -> None:
        start = {"--methods": "plain", "--trials": 2} | dict(zip(more[::2], more[1::2], strict=False))
        given = [word for option in ("--methods", "--trials") for word in (option, start[option])]
        rest = more if more[0] not in ("--methods", "--trials") else more[2:]
        done = command("tune", "--data", "no-such-file.csv", "--out", tmp_path / "tuned", *given, *rest)
        assert (done.code, done.out) == (2, "")
        assert complaint in done.err
        assert done.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_no_data_and_none_that_can_be_found(self, command: Cli, tmp_path: Path) -> None:
        given = ("tune", "--methods", "plain", "--trials", 1, "--out", tmp_path / "tuned")
        assert "there are no data; say which with --data" in command(*given).err
        done = command(*given, "--data", "planted-clusterd")
        assert (done.code, done.out) == (1, "")
        assert "did you mean 'planted-clustered'?" in done.err
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(SettingsError, match="there are no data; give tune a frame"):
            pspns.tune(methods=["plain"], trials=1, out=tmp_path / "tuned")
        with pytest.raises(SettingsError, match=r"trials must be a whole number, got 1\.5"):
            pspns.tune("x", methods="plain", trials=1.5, out=tmp_path / "tuned")  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match="at_once must be a whole number, got None"):
            pspns.tune("x", methods="plain", trials=1, at_once=None, out=tmp_path / "tuned")  # type: ignore[arg-type]

    def test_without_optuna(self, command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        done = command("tune", "--data", "x", "--methods", "plain", "--trials", 1, "--out", tmp_path / "tuned")
        assert (done.code, done.out) == (2, "")
        assert done.err == ("pspns: error: tuning needs optuna, which is not installed; pip install 'pspns[tune]'\n")


class TestSpacesAsTyped:
    def test_values_are_read_by_the_type_of_the_setting(self) -> None:
        search = read_search(["training.l2=1e-5, 1", "rank=3,7", "loss=bpr,bce"])
        _, spaces = resolve_methods(["plain", "paper"], Layer("here", {}), None, search)
        assert spaces["plain"]["training.l2"] == spaces["paper"]["training.l2"] == Choices((1e-5, 1.0))
        assert spaces["paper"]["positives.rank"] == Choices((3, 7))
        assert spaces["paper"]["training.loss"] == Choices(("bpr", "bce"))
        # What only one of the methods has is searched there alone.
        assert set(spaces["plain"]) == {"training.learning_rate", "training.l2", "training.loss"}

    def test_a_span_from_python(self) -> None:
        span = Span(low=1e-6, high=1e-3, log=True)
        _, spaces = resolve_methods(["plain"], Layer("here", {}), None, {"l2": span})
        assert spaces["plain"]["training.l2"] is span
        with pytest.raises(SettingsError, match="search: l2 must be at least 0, got -1"):
            resolve_methods(["plain"], Layer("here", {}), None, {"l2": Span(low=-1.0, high=1.0)})

    def test_values_that_go_together_with_others(self) -> None:
        """One of the best 100 of 8 candidates is none, of 200 it is one: such a value is tried where it can be."""
        search = {"candidates": [8, 200], "best": [1, 100]}
        _, spaces = resolve_methods(["dns-m-n"], Layer("here", {}), None, search)
        assert spaces["dns-m-n"]["negatives.best"] == Choices((1, 100))
        with pytest.raises(SettingsError, match=r"search: negatives\.best = 300 goes with nothing that is tried of"):
            resolve_methods(["dns-m-n"], Layer("here", {}), None, {**search, "best": [1, 300]})

    def test_one_value_from_python_fixes_a_setting(self) -> None:
        for value in (4, np.int64(4), "4", [4]):
            _, spaces = resolve_methods("dns", Layer("here", {}), None, {"candidates": value})
            assert spaces["dns"]["negatives.candidates"] == Choices((4,))
        with pytest.raises(SettingsError, match=r"search candidates: each value must be a whole number, got 4\.5"):
            resolve_methods("dns", Layer("here", {}), None, {"candidates": 4.5})

    def test_what_to_say_instead_in_python(self, tmp_path: Path) -> None:
        told = r"candidates is a setting that not every method has; say with search=\{'candidates': …\}"
        with pytest.raises(SettingsError, match=told):
            pspns.tune("x", methods="dns", trials=1, out=tmp_path / "tuned", candidates=4)

    def test_a_name_with_two_homes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        options = {"positives": "repeated", "model": "lightgcn"}
        given = Layer("here", options)
        _, spaces = resolve_methods(["plain"], given, None, {"copies": [2, 3], "model.layers": [1, 2]})
        assert set(spaces["plain"]) >= {"positives.copies", "model.layers"}
        ranked = dataclasses.make_dataclass("Ranked", [("rank", int, 3)], frozen=True, kw_only=True)
        monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(Ranked=ranked))
        complaint = r"search rank could mean positives\.rank or negatives\.rank; say which"
        with pytest.raises(SettingsError, match=complaint):
            resolve_methods("paper+mine:Ranked", Layer("here", {}), None, {"rank": 2})

    def test_methods_are_recipes_with_other_parts(self) -> None:
        bases, _ = resolve_methods(["recommended", "uniform"], Layer("here", {"batch_size": 7}), None, {})
        assert bases["recommended"].start.score_spread == 0.3
        assert {settings.training.batch_size for settings in bases.values()} == {7}
        assert type(bases["uniform"].positives).__name__ == "ObservedPositives"
