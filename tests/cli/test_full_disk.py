"""`pspns train` where nothing more can be written: a clear message, and the last good state is kept."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path

import pytest
from command_server import SHORT, Job, Server, assert_same_run, checkpoints, train

pytestmark = pytest.mark.promise("full-disk-and-signals")

FULL = os.strerror(errno.ENOSPC)
POLARS = "polars.exceptions.ComputeError"  # what its Parquet writer makes of an error of the system
SAFETENSORS = "safetensors.SafetensorError"


@pytest.fixture(scope="module")
def untouched(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untouched")
    assert server.run(*train(clicks_file, folder, **SHORT)).wait() == 0
    return folder / "run"


@pytest.fixture
def words(clicks_file: Path, tmp_path: Path) -> tuple[object, ...]:
    return train(clicks_file, tmp_path, **SHORT)


def assert_told(job: Job, *words: str) -> None:
    """In one line, without a traceback."""
    assert job.wait() in (1, 2), job.text
    assert job.last_line.startswith("pspns: error: ")
    assert all(word in job.last_line for word in words), job.last_line
    assert "Traceback" not in job.text


def assert_goes_on(server: Server, words: tuple[object, ...], folder: Path, untouched: Path) -> None:
    """Once there is room, from the last checkpoint to the end."""
    assert not (folder / "run").exists()
    kept = checkpoints(folder / "run")
    assert len(kept) in (2, 3)
    done = server.run(*words, "--resume")
    assert done.wait() == 0, done.text
    assert f"going on after step {int(kept[-1][5:-12]):,}, " in done.text
    assert "damaged" not in done.text
    assert_same_run(folder / "run", untouched)
    assert list(folder.iterdir()) == [folder / "run"]


@pytest.mark.parametrize(
    ("function", "call", "kind"),
    [
        ("pspns.training.checkpoint.save_file", 3, SAFETENSORS),
        ("pspns.training.checkpoint._seal", 3, "OSError"),
        ("pspns.training.checkpoint._sync_folder", 3, "OSError"),
        ("os.replace", 3, "OSError"),
        ("os.unlink", 2, "OSError"),
        ("pspns.run_folder.write_json", 1, "OSError"),
        ("pspns.run_folder._write_history", 1, "OSError"),
        ("polars.DataFrame.write_parquet", 1, POLARS),  # per_user.parquet
        ("pspns.model_files.save_file", 1, SAFETENSORS),
        ("pspns.model_files.save_file", 2, SAFETENSORS),
        ("polars.DataFrame.write_parquet", 2, POLARS),  # users.parquet
        ("pspns.model_files.write_json", 1, "OSError"),
        ("pspns.new_folder._flush", 1, "OSError"),
        ("pspns.new_folder._rename", 1, "OSError"),
    ],
)
def test_writing_that_fails(
    server: Server, words: tuple[object, ...], untouched: Path, tmp_path: Path, function: str, call: int, kind: str
) -> None:
    assert_told(server.run(*words, failure=(function, call, errno.ENOSPC, kind)), FULL)
    assert_goes_on(server, words, tmp_path, untouched)


def test_nothing_can_be_written_from_the_start(server: Server, words: tuple[object, ...], tmp_path: Path) -> None:
    job = server.run(*words, failure=("os.mkdir", 1, errno.ENOSPC, "OSError"))
    assert_told(job, f"{tmp_path / 'run.unfinished'}: cannot be used for checkpoints: {FULL}", "choose another --out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "function", "kind"),
    [
        ("recommend {run} --all --out {out}.csv", "polars.DataFrame.write_csv", "OSError"),
        ("recommend {run} --all --out {out}.parquet", "polars.DataFrame.write_parquet", POLARS),
        ("report {run} --out {out}.html", "pathlib.Path.write_text", "OSError"),
    ],
)
def test_a_file_that_is_there_is_kept(
    server: Server, untouched: Path, tmp_path: Path, command: str, function: str, kind: str
) -> None:
    words = command.format(run=untouched, out=tmp_path / "out").split()
    out = Path(words[-1])
    out.write_text("what was there")
    job = server.run(*words, "--overwrite", failure=(function, 1, errno.ENOSPC, kind))
    assert_told(job, f"cannot write {out}", FULL)
    assert out.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [out]
    assert server.run(*words, "--overwrite").wait() == 0


@pytest.mark.parametrize("call", [1, 2])
def test_building_positives(server: Server, clicks_file: Path, tmp_path: Path, call: int) -> None:
    words = ("build", "--data", clicks_file, "--rank", 5, "--out", tmp_path / "built")
    assert_told(server.run(*words, failure=("polars.DataFrame.write_parquet", call, errno.ENOSPC, POLARS)), FULL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="sets limits of another process")
@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("pspns.training.checkpoint.save_file", "step-"),
        ("pspns.run_folder.write_json", ""),
        ("pspns.run_folder._per_user_frame", ""),
        ("pspns.run_folder.write_model", ""),
    ],
)
def test_the_system_lets_no_file_grow(
    server: Server, words: tuple[object, ...], untouched: Path, tmp_path: Path, function: str, file: str
) -> None:
    """Not a pretended error, but the system's own, as each library that writes files passes it on."""
    job = server.start(*words, delays={function: 0.2})
    job.wait_for(f"waiting in {function}", times=3 if file else 1)
    _, hard = resource.prlimit(job.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, (5_000, hard))  # more than it says, less than it writes
    assert_told(job, os.strerror(errno.EFBIG), file)
    assert_goes_on(server, words, tmp_path, untouched)


@pytest.mark.skipif(sys.platform != "linux", reason="gives up what root may")
class TestReadOnly:
    """Folders that may not be written to: before the run, in the midst of it, and at its end."""

    def test_from_the_start(self, server: Server, words: tuple[object, ...], tmp_path: Path) -> None:
        tmp_path.chmod(0o555)
        job = server.run(*words, obeys_modes=True)
        tmp_path.chmod(0o755)
        assert_told(job, "cannot be used for checkpoints: Permission denied", "choose another --out")
        assert list(tmp_path.iterdir()) == []

    def test_in_training(self, server: Server, words: tuple[object, ...], untouched: Path, tmp_path: Path) -> None:
        folder = tmp_path / "run.unfinished"
        job = server.start(*words, obeys_modes=True, delays={"pspns.training.cpu_step.slopes": 0.002})
        job.wait_for("step 60 ")
        folder.chmod(0o555)
        job.wait()
        folder.chmod(0o755)
        assert_told(job, "cannot be written: Permission denied; earlier checkpoints are kept")
        assert_goes_on(server, words, tmp_path, untouched)

    def test_at_the_end(self, server: Server, words: tuple[object, ...], untouched: Path, tmp_path: Path) -> None:
        job = server.start(*words, obeys_modes=True, delays={"pspns.cli.train.write_run": 0.2})
        job.wait_for("waiting in pspns.cli.train.write_run")
        tmp_path.chmod(0o555)
        job.wait()
        tmp_path.chmod(0o755)
        assert_told(job, f"cannot write {tmp_path / 'run'}: Permission denied")
        assert_goes_on(server, words, tmp_path, untouched)
