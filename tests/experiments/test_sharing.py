"""Several processes at the same records: nothing is done twice, nothing is left, and seconds are measured alone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from other_processes import at_once, wait_until
from toy import given_split

from pspns.data.split import GivenSplit
from pspns.errors import DivergedError, PspnsError
from pspns.experiments import carrying_out
from pspns.experiments import loops as loops_module
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Experiment, Job
from pspns.experiments.records import Records
from pspns.experiments.sections import Section
from pspns.experiments.sharing import MACHINE, TAKEN, Sharing

DATA = "toy"
# Each in a loop of its own.
SAMPLERS = tuple(Cell(DATA, "mf", method) for method in ("uniform", "dns", "dns-m-n", "mixgcf", "ahns", "popularity"))
TERMS = Terms(
    max_steps=12,
    seeds=1,
    device="cpu",
    trials=2,
    changes=(
        ("model.embedding_size", 4),
        ("training.evaluate_every", 3),
        ("training.learning_rate", 0.02),
        ("run.checkpoint_seconds", 0.0),
    ),
)


@pytest.fixture(scope="module")
def data() -> GivenSplit:
    return given_split(60, 50, 600)


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying_out, "PAUSE", 0.01)


def experiment(*cells: Cell, tuned: tuple[Cell, ...] = (), jobs: tuple[Job, ...] = ()) -> Experiment:
    return Experiment(
        title="",
        shows="",
        section=lambda records, names: Section("", "", ()),
        cells=lambda name: cells,
        tuned=lambda name: tuned,
        jobs=lambda name: jobs,
    )


def carry(folder: Path, data: GivenSplit, one: Experiment, **how: Any) -> list[str]:
    """What was said."""
    said: list[str] = []
    records = Records(folder / "cells")
    carry_out({DATA: [one]}, records, TERMS, lambda name: data, unfinished=folder / "u", say=said.append, **how)
    return said


def slowly(*_: object) -> None:
    time.sleep(0.02)


def names(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "cells").glob("*.json")}


def read(folder: Path) -> dict[str, Any]:
    """What does not depend on how fast the machine is."""
    found = {}
    for path in (folder / "cells").glob("*.json"):
        record = json.loads(path.read_text())
        for key in ("seconds", "looks"):
            record.pop(key, None)
        for trial in record.get("trials", ()):
            trial.pop("seconds", None)
        found[path.stem] = record
    return found


class TestTaken:
    def test_what_one_has_no_other_gets_until_it_is_let_go(self, tmp_path: Path) -> None:
        sharing = Sharing(tmp_path / "u")
        with sharing.taken(["a", "b"]) as first:
            with sharing.taken(["b", "c"]) as second, sharing.taken(["a", "b", "c"]) as third:
                assert (first, second, third) == (["a", "b"], ["c"], [])
            with sharing.taken(["c"]) as again:
                assert again == ["c"]
        assert not (tmp_path / "u").exists()

    def test_a_killed_process_has_nothing(self, tmp_path: Path) -> None:
        def take() -> None:
            with Sharing(tmp_path / "u").taken(["a"]):
                time.sleep(60)

        with at_once(take):
            # Who has it writes its name into the file once it has it.
            wait_until(lambda: any(file.stat().st_size for file in (tmp_path / "u" / TAKEN).glob("a")))
            with Sharing(tmp_path / "u").taken(["a"]) as ours:
                assert ours == []
        assert (tmp_path / "u" / TAKEN / "a").exists()
        with Sharing(tmp_path / "u").taken(["a"], alone=True) as ours:
            assert ours == ["a"]
        assert not (tmp_path / "u").exists()

    def test_alone_means_that_nobody_has_anything(self, tmp_path: Path) -> None:
        sharing = Sharing(tmp_path / "u")
        with sharing.taken(["a"]), sharing.taken(["b"]), sharing.taken(["timed"], alone=True) as ours:
            assert ours == []
        with sharing.taken(["timed"], alone=True) as ours:
            assert ours == ["timed"]
            with sharing.taken(["a"]) as other, sharing.taken(["timed, too"], alone=True) as another:
                assert (other, another) == ([], [])
        with sharing.taken(["a"]) as ours:
            assert ours == ["a"]
            assert (tmp_path / "u" / TAKEN / MACHINE).exists()
        assert not (tmp_path / "u").exists()

    def test_errors_inside_let_go_and_pass(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt), Sharing(tmp_path / "new" / "u").taken(["a"]):
            raise KeyboardInterrupt
        assert not (tmp_path / "new").exists()

    def test_a_folder_that_was_there_stays_and_one_with_something_in_it(self, tmp_path: Path) -> None:
        (tmp_path / "old").mkdir()
        with Sharing(tmp_path / "old" / "new" / "u").taken(["a"]):
            pass
        assert list(tmp_path.rglob("*")) == [tmp_path / "old"]
        with Sharing(tmp_path / "new" / "u").taken(["a"]):
            (tmp_path / "new" / "record").touch()
        assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "record"]

    def test_without_a_folder_there_is_nobody_else(self) -> None:
        with Sharing().taken(["a"]), Sharing().taken(["a"], alone=True) as ours:
            assert ours == ["a"]

    def test_a_place_that_cannot_be_used_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "u").write_text("notes")
        with (
            pytest.raises(PspnsError, match=r"u/taken: cannot be used to share the work: .*--out"),
            Sharing(tmp_path / "u").taken(["a"]),
        ):
            pass
        assert (tmp_path / "u").read_text() == "notes"


def test_three_processes_make_every_record_once_and_the_same(data: GivenSplit, tmp_path: Path) -> None:
    one = experiment(*SAMPLERS)
    carry(tmp_path / "alone", data, one)
    log = tmp_path / "log"

    def work() -> None:
        said = carry(tmp_path / "shared", data, one, watch=slowly)
        with log.open("a") as file:
            file.writelines(f"{os.getpid()} {line}\n" for line in said)

    with at_once(work, work, work) as processes:
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    trained = [line.partition(" ") for line in log.read_text().splitlines() if " training " in line]
    assert sorted(line.rpartition(": ")[2] for _, _, line in trained) == sorted(cell.name for cell in SAMPLERS)
    assert len({process for process, _, _ in trained}) == 3  # nobody did all of it
    assert read(tmp_path / "shared") == read(tmp_path / "alone")
    assert not (tmp_path / "shared" / "u").exists()


def test_who_waits_goes_on_with_what_a_killed_process_was_at(data: GivenSplit, tmp_path: Path) -> None:
    one = experiment(SAMPLERS[0])
    carry(tmp_path / "alone", data, one)
    with at_once(lambda: carry(tmp_path / "shared", data, one, watch=lambda *_: time.sleep(0.2))) as (process,):
        # One level only: below that it is still being written.
        wait_until(lambda: list((tmp_path / "shared" / "u").glob("*/step-*.safetensors")))
        steps: list[int] = []
        said: list[str] = []

        def say(line: str) -> None:
            said.append(line)
            if line.startswith("waiting"):
                assert process.pid
                os.kill(process.pid, signal.SIGKILL)

        records = Records(tmp_path / "shared" / "cells")
        carry_out(
            {DATA: [one]},
            records,
            TERMS,
            lambda name: data,
            unfinished=tmp_path / "shared" / "u",
            say=say,
            watch=lambda step, *rest: steps.append(step),
        )
    assert f"waiting for other processes; not done yet: {SAMPLERS[0].name}" in said
    assert steps[0] > 1
    assert read(tmp_path / "shared") == read(tmp_path / "alone")


def test_trials_of_another_process_are_waited_for_and_what_they_chose_is_trained(
    data: GivenSplit, tmp_path: Path
) -> None:
    one = experiment(tuned=SAMPLERS[:3])
    carry(tmp_path / "alone", data, one)
    logs = [tmp_path / "first", tmp_path / "second"]

    def work(log: Path) -> Callable[[], object]:
        return lambda: log.write_text("\n".join(carry(tmp_path / "shared", data, one, watch=slowly)))

    with at_once(*map(work, logs)) as processes:
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    said = [line for log in logs for line in log.read_text().splitlines()]
    tried = [name for line in said if "in one loop: " in line for name in line.partition(": ")[2].split(", ")]
    assert len(tried) == len(set(tried)) == TERMS.trials * 3
    assert read(tmp_path / "shared") == read(tmp_path / "alone")


def test_seconds_are_measured_while_nobody_is_at_anything(data: GivenSplit, tmp_path: Path) -> None:
    timed = Cell(DATA, "mf", "uniform", alone=True)
    seen = tmp_path / "seen"

    def measure(*_: object) -> dict[str, Any]:
        with Sharing(tmp_path / "shared" / "u").taken(["something"]) as ours:
            return {"could_others_begin": bool(ours)}

    one = experiment(timed, *SAMPLERS[:2], jobs=(Job("clock-toy", DATA, measure, alone=True),))
    other = experiment(*SAMPLERS[2:4])
    real = loops_module.run_together

    def watched(data: Any, members: Any, **how: Any) -> Any:
        found = real(data, members, **how)
        with Sharing(tmp_path / "shared" / "u").taken(["something"]) as ours, seen.open("a") as file:
            file.write(f"{members[0].negatives} {bool(ours)}\n")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops_module, "run_together", watched)
        with at_once(
            lambda: carry(tmp_path / "shared", data, one, watch=slowly),
            lambda: carry(tmp_path / "shared", data, other, watch=slowly),
        ) as processes:
            for process in processes:
                process.join(60)
                assert process.exitcode == 0
    assert names(tmp_path / "shared") == {timed.name, "clock-toy", *(cell.name for cell in SAMPLERS[:4])}
    assert sum(line.endswith("False") for line in seen.read_text().splitlines()) == 1  # of five
    assert json.loads((tmp_path / "shared" / "cells" / "clock-toy.json").read_text())["could_others_begin"] is False


def test_who_waits_looks_for_a_small_share_of_the_time(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that takes longer than a twentieth of the pause is paid for with a longer one."""
    taken, pauses = ExitStack(), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        taken.close()

    monkeypatch.setattr(carrying_out, "PAUSE", 1e-9)
    monkeypatch.setattr(carrying_out, "LOOKING", 1e-3)
    monkeypatch.setattr(carrying_out.time, "sleep", sleep)
    looks = iter([0.0, 0.25])
    monkeypatch.setattr(carrying_out.time, "perf_counter", lambda: next(looks, 0.0))
    with taken:
        taken.enter_context(Sharing(tmp_path / "u").taken([SAMPLERS[0].name]))
        carry(tmp_path, data, experiment(SAMPLERS[0]))
    assert pauses == [250.0]


def test_what_cannot_be_trained_is_not_waited_for(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(data: Any, members: Any, **how: Any) -> Any:
        raise DivergedError("numbers that are not finite")

    monkeypatch.setattr(loops_module, "run_together", diverging)
    with pytest.raises(carrying_out.NotTrainedError, match="not finite; 2 loops and jobs could not be carried out"):
        carry(tmp_path, data, experiment(*SAMPLERS[:2], tuned=SAMPLERS[:1]))
