"""`python -m pspns.experiments NAME` for the paper's tables and claims, where only the engine's libraries are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy import given_split

from pspns.data.arrays import write_arrays
from pspns.experiments import __main__ as command_line
from pspns.experiments import bare_machine, protocols
from pspns.experiments.cells import Cell
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.experiments.trials import Trials

BARE = """
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "polars pyarrow pydantic typer rich jinja2 matplotlib optuna".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for command in " ".join(sys.argv[1:]).split(" then "):  # importing torch takes the longest: one process for several
    sys.argv = ["pspns.experiments", *command.split()]
    runpy.run_module("pspns.experiments", run_name="__main__")
"""

TINY = ("--max-steps", 2, "--seeds", 1, "--quick", "--device", "cpu")


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    write_arrays(given_split(80, 70, 800), path)
    return path


@pytest.fixture
def experiments(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The command in this process; gives what it printed."""

    def carry_out(*words: object) -> str:
        options = ("--data", data_file, "--out", tmp_path / "out", *TINY)
        monkeypatch.setattr(sys, "argv", ["pspns.experiments", *map(str, (*words, *options))])
        capsys.readouterr()
        command_line.main()
        return capsys.readouterr().out

    return carry_out


def names_in(out: Path) -> set[str]:
    return {path.stem for path in (out / "cells").glob("*.json")}


def test_a_bare_machine_makes_the_records_of_studies_and_experiments(data_file: Path, tmp_path: Path) -> None:
    study = tmp_path / "record.json"
    first = ("protocols", "--data", data_file, "--seeds", "3-4", "--max-steps", 2, "--out", study, "--device", "cpu")
    second = ("seeds", "construction-time", "--data", data_file, "--out", tmp_path / "out", *TINY)
    words = map(str, (*first, "then", *second))
    done = subprocess.run([sys.executable, "-c", BARE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(study.read_text())
    assert (record["experiment"], record["data"]) == ("protocols", "toy")
    assert list(record["members"]) == list(protocols.members())
    for member in record["members"].values():
        assert member["seeds"] == [3, 4]
        assert len(member["test"]["recall@20"]["per_seed"]) == 2
    assert set(record["members"]["plain"]["baselines"]) == {"popular", "svd", "ease"}
    assert "validation recall@20" in done.stdout

    cells = {cell.name for cell in find_experiment("seeds").cells("toy")}
    jobs = {job.name for job in find_experiment("construction-time").jobs("toy")}
    assert jobs
    assert names_in(tmp_path / "out") == cells | jobs
    record = json.loads((tmp_path / "out" / "cells" / f"{min(cells)}.json").read_text())
    assert record["data"]["source"] == "toy"


def test_every_experiment_can_be_listed_without_training(experiments: Callable[..., str], tmp_path: Path) -> None:
    for name in experiment_names():
        experiment = find_experiment(name)
        lines = [line.split("\t") for line in experiments(name, "--list").splitlines()]
        cells = {cell.name for cell in experiment.cells("toy")}
        tuned = list(experiment.tuned("toy"))
        assert {name for name, _, where in lines if where.startswith("loop ")} == cells
        assert {name for name, _, where in lines if where == "job"} == {job.name for job in experiment.jobs("toy")}
        assert {name for name, _, where in lines if where == "after its trials"} == {f"tuned-{c.name}" for c in tuned}
        assert {name for name, _, where in lines if where.startswith("trial loops ")} == {Trials(c).name for c in tuned}
        assert {number for _, number, where in lines if where.startswith("loop ")} <= {"1 replicas"}
    assert not list(tmp_path.iterdir())


def test_usual_data_alone(experiments: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """No experiment is usually on this one, and a file that is called otherwise must not end in silence."""
    assert experiments("mf", "--list")
    with pytest.raises(SystemExit):
        experiments("mf", "--list", "--usual")
    assert "none of toy is what mf is usually on, which is ml-1m, epinions; name the file so" in capsys.readouterr().err


def test_cells_by_name(experiments: Callable[..., str], tmp_path: Path) -> None:
    plain = Cell("toy", "mf", "uniform")
    listed = [line.split("\t")[0] for line in experiments("mf", "--list").splitlines()]
    experiments("mf", "--cells", f"{plain.name},mf-toy-dns-strict")
    assert names_in(tmp_path / "out") == {plain.name, "mf-toy-dns-strict"}
    left = [line.split("\t")[0] for line in experiments("mf", "--list").splitlines()]
    assert sorted([*left, plain.name, "mf-toy-dns-strict"]) == sorted(listed)
    # What is tuned is trained once its trials are over, whatever its settings turn out to be.
    experiments("mf", "--cells", f"tuned-{plain.name}")
    trials = json.loads((tmp_path / "out" / "cells" / f"{Trials(plain).name}.json").read_text())
    tuned = plain.but(changes=tuple(trials["chosen"].items()))
    assert names_in(tmp_path / "out") == {plain.name, "mf-toy-dns-strict", Trials(plain).name, tuned.name}
    again = [line.split("\t")[0] for line in experiments("mf", "--list").splitlines()]
    assert not {plain.name, Trials(plain).name, f"tuned-{plain.name}", tuned.name} & set(again)


def test_stopped_it_says_how_to_go_on(
    experiments: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(bare_machine, "_watch", lambda *look: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(SystemExit) as end:
            experiments("seeds")
    assert end.value.code == 143
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: stopped before the end; what was found is kept in {tmp_path / 'out'}: give the same command to go on"
    )
    assert list((tmp_path / "out" / "unfinished").rglob("step-*"))
    assert "going on after step 1," in experiments("seeds")
    assert names_in(tmp_path / "out") == {cell.name for cell in find_experiment("seeds").cells("toy")}


def test_a_file_is_no_folder_for_records(
    experiments: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("notes")
    with pytest.raises(SystemExit) as end:
        experiments("seeds")
    assert end.value.code == 2
    assert f"--out must be a folder, and {tmp_path / 'out'} is a file; give another one" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "notes"


def test_names_of_studies_and_of_experiments_are_kept_apart() -> None:
    assert not set(command_line.EXPERIMENTS) & {*experiment_names(), "all"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("seeds", "overal"), "did you mean 'overall'"),
        (("overal",), "did you mean 'overall'"),
        (("--quick", "overall"), "the name of an experiment comes first"),
        (("seeds", "--cells", "mf-toy-dns-strict"), "no cell or job named 'mf-toy-dns-strict'"),
        (("seeds", "--trials", 0), "--trials must be at least 1, got 0"),
    ],
)
def test_mistakes_are_named(
    experiments: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[Any, ...],
    reason: str,
) -> None:
    with pytest.raises(SystemExit) as end:
        experiments(*words)
    assert end.value.code == 2
    assert reason in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("data", "reason"), [("no.npz", "there is no file 'no.npz'"), ("{0},{0}", "two files called")])
def test_mistaken_data(
    data_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str, reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        bare_machine.run(["seeds", "--data", data.format(data_file), "--out", str(tmp_path)])
