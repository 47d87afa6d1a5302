"""`pspns train`, interrupted and resumed: the end is the same to the bit, whatever happened on the way."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import polars as pl
import pytest
from command_server import INTERVAL, Server, assert_same_run, checkpoints, train

Words = tuple[object, ...]


@pytest.fixture
def words(clicks_file: Path, tmp_path: Path) -> Words:
    return train(clicks_file, tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    job = server.run(*train(clicks_file, folder))
    assert job.wait() == 0, job.text
    assert len(set(json.loads((folder / "run" / "result.json").read_text())["steps"])) > 1
    return folder / "run"


@pytest.mark.promise("full-disk-and-signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(
    server: Server,
    words: Words,
    uninterrupted: Path,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    out = tmp_path / "run"
    # So rarely that only being interrupted leaves a checkpoint.
    rarely = (*words[:-1], 1_000_000)
    job = server.start(*rarely)
    job.wait_for("step 60 ")
    assert checkpoints(out) == []
    job.send(number)
    assert job.wait() == code, job.text
    assert job.last_line == (
        f"pspns: error: stopped before the end; what was trained is kept in {out}.unfinished: "
        "give the same command with --resume to go on from there"
    )
    assert "Traceback" not in job.text
    assert [path.name for path in tmp_path.iterdir()] == ["run.unfinished"]
    (kept,) = checkpoints(out)
    step = int(kept.removeprefix("step-").removesuffix(".safetensors"))
    done = server.run(*rarely, "--resume")
    assert done.wait() == 0, done.text
    assert f"going on after step {step:,}, from {out}.unfinished" in done.text
    assert done.steps[0] == step + INTERVAL - step % INTERVAL
    settings = [json.loads((folder / "result.json").read_text())["settings"]["run"] for folder in (out, uninterrupted)]
    assert [one["checkpoint_seconds"] for one in settings] == [1_000_000, 0]
    assert (out / "model/model.safetensors").read_bytes() == (uninterrupted / "model/model.safetensors").read_bytes()
    again = server.run(*rarely, "--resume")
    assert again.wait() == 2
    assert "is a finished run, so there is nothing to go on with" in again.last_line
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.promise("full-disk-and-signals")
def test_interrupted_twice_it_stops_at_once(server: Server, words: Words, tmp_path: Path) -> None:
    """Even while it writes what the first interruption asked for."""
    job = server.start(*words[:-1], 1_000_000, delays={"os.fsync": 600})
    job.wait_for("step 60 ")
    job.send(signal.SIGINT)
    job.wait_for("waiting in os.fsync")
    assert "stopping after this step; once more to stop at once" in job.text
    job.send(signal.SIGINT)
    assert job.wait() == 130
    assert job.last_line == f"pspns: error: stopped before the end; nothing was written to {tmp_path / 'run'}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("full-disk-and-signals")
@pytest.mark.parametrize(("where", "kept"), [("pspns.cli.train.load_data", False), ("pspns.run.judge", True)])
def test_interrupted_before_and_after_training(
    server: Server, words: Words, tmp_path: Path, where: str, kept: bool
) -> None:
    job = server.start(*words, delays={where: 600})
    job.wait_for(f"waiting in {where}")
    job.send(signal.SIGINT)
    assert job.wait() == 130
    assert ("with --resume to go on" if kept else "nothing was written to") in job.last_line
    assert [path.name for path in tmp_path.iterdir()] == (["run.unfinished"] if kept else [])


@pytest.fixture(scope="module")
def stopped(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Words, Path]:
    """The words of a run that was stopped, and where it should have gone."""
    folder = tmp_path_factory.mktemp("stopped")
    given = train(clicks_file, folder)
    job = server.start(*given)
    job.wait_for("step 60 ")
    job.send(signal.SIGINT)
    assert job.wait() == 130
    return given, folder / "run"


class TestRefusals:
    @pytest.mark.promise("nothing-overwritten")
    def test_the_same_command_without_resume(self, server: Server, stopped: tuple[Words, Path]) -> None:
        given, out = stopped
        job = server.run(*given)
        assert job.wait() == 2
        assert job.text == (
            f"pspns: error: {out}.unfinished holds checkpoints of a run that was stopped; "
            "say --resume to go on with it, or --overwrite to start anew\n"
        )

    def test_other_settings(self, server: Server, stopped: tuple[Words, Path]) -> None:
        job = server.run(*stopped[0], "--resume", "--l2", 1, "--start", "normal")
        assert job.wait() == 2
        assert "start.name: then 'xavier', now 'normal'" in job.last_line
        assert "training.l2: then 0.0001, now 1.0" in job.last_line
        assert job.last_line.endswith("use the same settings, or start anew with --overwrite")

    def test_other_data(
        self, server: Server, stopped: tuple[Words, Path], clicks: pl.DataFrame, tmp_path: Path
    ) -> None:
        """In a file of another name, which would not matter; what is in it does."""
        given = list(stopped[0])
        given[2] = tmp_path / "other.csv"
        clicks.write_csv(tmp_path / "other.csv")
        same = server.start(*given, "--resume")
        same.wait_for("going on after step")
        same.send(signal.SIGINT)
        assert same.wait() == 130
        clicks[1:].write_csv(tmp_path / "other.csv")
        job = server.run(*given, "--resume")
        assert job.wait() == 2
        assert "parts.fingerprint: then" in job.last_line

    @pytest.mark.promise("nothing-overwritten")
    def test_a_second_process(self, server: Server, stopped: tuple[Words, Path]) -> None:
        given, out = stopped
        first = server.start(*given, "--resume", delays={"pspns.run.judge": 600})
        first.wait_for("going on after step")
        for more in ((), ("--resume",), ("--overwrite",)):
            second = server.run(*given, *more)
            assert second.wait() == 1
            assert f"{out}.unfinished: another run (process {first.pid} on " in second.last_line
        first.send(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert checkpoints(out)

    def test_starting_anew(self, server: Server, stopped: tuple[Words, Path], uninterrupted: Path) -> None:
        given, out = stopped
        job = server.run(*given, "--overwrite")
        assert job.wait() == 0, job.text
        assert "going on" not in job.text
        assert "step 20 " in job.text
        assert_same_run(out, uninterrupted)
        assert list(out.parent.iterdir()) == [out]


@pytest.mark.promise("damaged-checkpoints")
@pytest.mark.parametrize("damaged", ["the newest", "all"])
def test_going_on_from_a_damaged_checkpoint(
    server: Server, words: Words, uninterrupted: Path, tmp_path: Path, damaged: str
) -> None:
    job = server.start(*words)
    job.wait_for("step 80 ")
    job.send(signal.SIGKILL)
    job.wait()
    *_, older, newest = checkpoints(tmp_path / "run")
    # Two, or three if it was killed while the oldest was about to go.
    for name in [newest] if damaged == "the newest" else checkpoints(tmp_path / "run"):
        path = tmp_path / "run.unfinished" / name
        path.write_bytes(path.read_bytes()[:-1])
    done = server.run(*words, "--resume")
    if damaged == "the newest":
        assert done.wait() == 0, done.text
        told = f"{newest}: is damaged or cut short (its checksum does not fit); the older {older} is used instead"
        assert told in done.text
        assert_same_run(tmp_path / "run", uninterrupted)
    else:
        assert done.wait() == 1
        assert "no checkpoint is whole" in done.last_line
        assert newest in done.last_line
        assert older in done.last_line
        assert not (tmp_path / "run").exists()
        assert server.run(*words, "--overwrite").wait() == 0
        assert_same_run(tmp_path / "run", uninterrupted)


def test_resume_where_nothing_was_begun(server: Server, words: Words, uninterrupted: Path, tmp_path: Path) -> None:
    job = server.run(*words, "--resume")
    assert job.wait() == 0, job.text
    assert "there is no checkpoint in" in job.text
    assert_same_run(tmp_path / "run", uninterrupted)
