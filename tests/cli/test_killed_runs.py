"""`kill -9` at random moments of a whole run: it goes on to the same bits, and one interval at most is lost."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path

import pytest
from command_server import INTERVAL, SHORT, Job, Server, assert_same_run, checkpoints, train
from promises import CaseCounter, Cases

# Functions that write, made slow so that the kill finds them at work.
CHECKPOINT_WRITERS = (
    "pspns.training.checkpoint.save_file",
    "pspns.training.checkpoint._seal",
    "os.replace",
    "os.unlink",
)
RESULT_WRITERS = (
    "pspns.run_folder.write_json",
    "pspns.run_folder._write_history",
    "pspns.model_files.save_file",
    "pspns.model_files.write_json",
    "pspns.new_folder._flush",
    "pspns.new_folder._rename",
)
DELAY = 0.03  # seconds


@dataclass(frozen=True)
class Moment:
    """Some time after a line has come up so many times in what the run says."""

    phase: str
    line: str = ""
    times: int = 0
    seconds: float = 0.0
    delays: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Untouched:
    """A run that nobody killed."""

    folder: Path
    said: str
    seconds_to_first_step: float

    def moments(self, rng: random.Random) -> Iterator[Moment]:
        """Without end; a quarter each at the start, in training, in writing checkpoints and in writing the result."""
        for phase in cycle(("start", "training", "checkpoint", "result")):
            match phase:
                case "start":
                    yield Moment(phase, seconds=rng.uniform(0, self.seconds_to_first_step))
                case "training":
                    yield self._moment(phase, "\nstep ", rng)
                case _:
                    name = rng.choice(CHECKPOINT_WRITERS if phase == "checkpoint" else RESULT_WRITERS)
                    yield self._moment(phase, f"waiting in {name}\n", rng, {name: DELAY})

    def _moment(self, phase: str, line: str, rng: random.Random, delays: dict[str, float] | None = None) -> Moment:
        times = rng.randint(1, self.said.count(line))
        return Moment(phase, line, times, rng.uniform(0, 2 * DELAY), delays or {})


@pytest.fixture(scope="module")
def untouched(server: Server, clicks_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Untouched:
    folder = tmp_path_factory.mktemp("untouched")
    words = train(clicks_file, folder, **SHORT)
    # Delays of nothing: the functions only tell that they are called.
    job = server.start(*words, delays=dict.fromkeys((*CHECKPOINT_WRITERS, *RESULT_WRITERS), 0.0))
    began = time.monotonic()
    job.wait_for("\nstep ")
    seconds = time.monotonic() - began
    assert job.wait() == 0, job.text
    assert len(set(json.loads((folder / "run" / "result.json").read_text())["steps"])) > 1
    return Untouched(folder / "run", job.text, seconds)


def kill(job: Job, moment: Moment) -> bool:
    """Whether it was killed, and had not ended before."""
    job.wait_for(moment.line, moment.times)
    time.sleep(moment.seconds)
    job.send(signal.SIGKILL)
    assert job.wait() in (0, -signal.SIGKILL), job.text
    return job.wait() != 0


@pytest.mark.promise("killed-runs", cases=Cases(20, long=200))
def test_killed_at_random_moments(
    server: Server, clicks_file: Path, untouched: Untouched, tmp_path: Path, case_counter: CaseCounter
) -> None:
    out, words = tmp_path / "run", train(clicks_file, tmp_path, **SHORT)
    left = Counter[str]()
    moments = untouched.moments(random.Random(0))
    while case_counter.tried < case_counter.planned:
        moment = next(moments)
        job = server.start(*words, delays=moment.delays)
        if kill(job, moment):
            left[what_is_left(tmp_path)] += 1
            if out.exists():
                refused = server.run(*words, "--resume")
                assert refused.wait() == 2
                assert "is a finished run, so there is nothing to go on with" in refused.last_line
            else:
                assert_goes_on(server, job, words, out)
            case_counter.count()
        assert_same_run(out, untouched.folder)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
    # The result itself may be there, too, if the kill has fallen just before the checkpoints are removed.
    assert left.keys() >= {"nothing", "checkpoints", "half a checkpoint", "half a result"}


def what_is_left(folder: Path) -> str:
    """Where in the run the kill has fallen, by what lies there."""
    if (folder / "run").exists():
        return "a result"
    if any(path.name.startswith(".run.") and any(path.iterdir()) for path in folder.iterdir()):
        return "half a result"
    if (folder / "run.unfinished" / ".unfinished").exists():
        return "half a checkpoint"
    return "checkpoints" if checkpoints(folder / "run") else "nothing"


def assert_goes_on(server: Server, killed: Job, words: tuple[object, ...], out: Path) -> None:
    """From the last checkpoint that was whole, at most one interval back."""
    steps = [int(name[5:-12]) for name in checkpoints(out)]
    last_kept, last_told = max(steps, default=0), max(killed.steps, default=0)
    # A step that is evaluated is told of, then kept. So what was told and not kept was not followed by a step, and what
    # was kept by less than an interval of them.
    assert last_told - last_kept in (0, INTERVAL)
    assert [later - earlier for earlier, later in pairwise(steps)] == [INTERVAL] * (len(steps) - 1)
    done = server.run(*words, "--resume")
    assert done.wait() == 0, done.text
    assert "damaged" not in done.text
    going_on = f"going on after step {last_kept:,}, from {out}.unfinished"
    assert (going_on if steps else f"there is no checkpoint in {out}.unfinished") in done.text
    assert done.steps[:1] in ([], [last_kept + INTERVAL])  # none if the last one was kept
    assert list(out.parent.iterdir()) == [out]
