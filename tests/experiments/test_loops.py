"""A loop that is stopped keeps what it has come to, and goes on to the same records."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from toy import given_split

from pspns.data.split import GivenSplit
from pspns.denoising.none import NoDenoising
from pspns.errors import DivergedError, PspnsError, SettingsError
from pspns.experiments import loops as loop_module
from pspns.experiments import records as records_module
from pspns.experiments.carrying_out import NotTrainedError, carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Experiment
from pspns.experiments.loops import BegunOtherwiseError, loops, trained
from pspns.experiments.records import Records, UnwritableError
from pspns.experiments.sections import Section
from pspns.experiments.telling import Telling
from pspns.memory import MemoryBudgetError
from pspns.training.checkpoint import Checkpoints

DATA = "toy"
# t-ce trains in a loop of its own.
CELLS = Cell(DATA, "mf", "uniform"), Cell(DATA, "mf", "repeated"), Cell(DATA, "mf", "t-ce")
TERMS = Terms(
    max_steps=12,
    seeds=2,
    device="cpu",
    changes=(("model.embedding_size", 4), ("training.evaluate_every", 3), ("training.learning_rate", 0.02)),
)


@pytest.fixture(scope="module")
def data() -> GivenSplit:
    return given_split(60, 50, 600)


def carry(folder: Path, data: GivenSplit | None, *, terms: Terms = TERMS, cells: Any = CELLS, **how: Any) -> Records:
    experiment = Experiment("", "", lambda records, names: Section("", "", ()), cells=lambda name: cells)
    carry_out({DATA: [experiment]}, Records(folder / "cells"), terms, lambda name: data, unfinished=folder / "u", **how)
    return Records(folder / "cells")


def read(records: Records) -> dict[str, Any]:
    """All that does not depend on how fast the machine is."""
    found = {}
    for path in records.folder.glob("*.json"):
        record = json.loads(path.read_text())
        looks = [step for step, _ in record.pop("looks")]
        found[path.stem] = {**record, "seconds": None, "looks": looks}
    return found


def stop_at(loop: int, step: int) -> Any:
    """Ctrl-C after this step of this loop, counted from 1."""
    begun = []

    def watch(now: int, last_step: int, evaluation: object) -> None:
        if now == 1:
            begun.append(now)
        if (len(begun), now) == (loop, step):
            raise KeyboardInterrupt

    return watch


@pytest.fixture(scope="module")
def untouched(data: GivenSplit, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return read(carry(tmp_path_factory.mktemp("untouched"), data))


@pytest.mark.parametrize(("loop", "step"), [(1, 7), (2, 5)])
def test_stopped_in_the_middle_of_a_loop(
    data: GivenSplit, untouched: dict[str, Any], tmp_path: Path, loop: int, step: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry(tmp_path, data, watch=stop_at(loop, step))
    assert len(list((tmp_path / "u").rglob("step-*"))) == 1
    assert len(list((tmp_path / "cells").glob("*"))) == (0 if loop == 1 else 2)
    said: list[str] = []
    steps: list[int] = []
    found = carry(tmp_path, data, say=said.append, watch=lambda now, last, evaluation: steps.append(now))
    assert steps[0] == step + 1
    assert any(f"going on after step {step}," in line for line in said)
    assert read(found) == untouched
    assert not (tmp_path / "u").exists()


def test_cells_trained_in_other_company_meanwhile(data: GivenSplit, untouched: dict[str, Any], tmp_path: Path) -> None:
    """What the first loop kept is of no more use; it goes, and nobody stumbles over it."""
    with pytest.raises(KeyboardInterrupt):
        carry(tmp_path, data, watch=stop_at(1, 7))
    carry(tmp_path, data, cells=CELLS[:1])
    assert not (tmp_path / "u").exists()
    found = read(carry(tmp_path, data))
    for name, record in untouched.items():
        assert found[name]["test"] == record["test"]
        assert found[name]["curve_recall@20"] == record["curve_recall@20"]


def test_other_settings_begin_anew(data: GivenSplit, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry(tmp_path, data, watch=stop_at(1, 7))
    steps: list[int] = []
    other = dataclasses.replace(TERMS, max_steps=9)
    carry(tmp_path, data, terms=other, watch=lambda now, last, evaluation: steps.append(now))
    assert steps[0] == 1


def test_other_data_are_refused_with_the_place_of_what_was_kept(data: GivenSplit, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry(tmp_path, data, watch=stop_at(1, 7))
    (place,) = (tmp_path / "u").iterdir()
    with pytest.raises(NotTrainedError) as caught:
        carry(tmp_path, given_split(60, 50, 601))
    assert isinstance(caught.value.__cause__, BegunOtherwiseError)
    assert f"remove {place}" in str(caught.value)
    assert place.is_dir()


def test_a_loop_that_memory_does_not_hold_is_trained_in_halves(
    data: GivenSplit, untouched: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop_module.run_together

    def with_little_memory(data: Any, members: Any, **how: Any) -> Any:
        if len(members) > 1:
            raise MemoryBudgetError("training needs 9 GiB")
        return real(data, members, **how)

    monkeypatch.setattr(loop_module, "run_together", with_little_memory)
    said: list[str] = []
    found = read(carry(tmp_path, data, say=said.append))
    assert "training needs 9 GiB; half of them at a time, then" in said
    assert {name: record["test"] for name, record in found.items()} == {
        name: record["test"] for name, record in untouched.items()
    }
    monkeypatch.setattr(loop_module, "run_together", lambda *members, **how: with_little_memory(data, CELLS))
    with pytest.raises(
        NotTrainedError, match=r"^training needs 9 GiB; 3 loops and jobs could not be carried out"
    ) as caught:
        carry(tmp_path / "other", data)
    assert caught.value.exit_code == MemoryBudgetError.exit_code


def test_two_processes_do_not_train_the_same_loop(data: GivenSplit, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry(tmp_path, data, watch=stop_at(1, 7))
    (place,) = (tmp_path / "u").iterdir()
    with Checkpoints(place, {}).lock(), pytest.raises(PspnsError, match="writes its checkpoints there"):
        carry(tmp_path, data)
    # What is not being trained there is not held up.
    assert [path.stem for path in (tmp_path / "cells").glob("*.json")] == ["mf-toy-t-ce-strict"]


def test_what_cannot_be_trained_does_not_hold_up_the_others(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop_module.run_together

    def diverging(data: Any, members: Any, **how: Any) -> Any:
        if members[0].denoiser == NoDenoising():
            raise DivergedError("numbers that are not finite")
        return real(data, members, **how)

    monkeypatch.setattr(loop_module, "run_together", diverging)
    said: list[str] = []
    with pytest.raises(NotTrainedError, match="numbers that are not finite; 2 loops"):
        carry(tmp_path, data, say=said.append)
    assert [path.stem for path in (tmp_path / "cells").glob("*.json")] == ["mf-toy-t-ce-strict"]
    assert sum(line.startswith("not trained: mf-toy-") for line in said) == len(CELLS) - 1


def test_settings_that_cannot_be_trained_do_not_hold_up_their_company(data: GivenSplit, tmp_path: Path) -> None:
    too_high = Cell(DATA, "mf", "psp-ns", changes=(("positives.rank", 51),))  # of 50 items
    fine = Cell(DATA, "mf", "psp-ns", changes=(("positives.rank", 8),))
    assert loops([CELLS[0], too_high, fine], TERMS) == [[CELLS[0], too_high, fine]]
    with pytest.raises(NotTrainedError, match="rank must be at most"):
        carry(tmp_path, data, cells=[CELLS[0], too_high, fine])
    assert {path.stem for path in (tmp_path / "cells").glob("*.json")} == {CELLS[0].name, fine.name}


def test_what_another_process_has_made_meanwhile_is_not_made_again(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop_module.run_together
    trained_now: list[int] = []

    def beside_another(data: Any, members: Any, **how: Any) -> Any:
        trained_now.append(len(members))
        if len(trained_now) == 1:
            carry(tmp_path / "another", data)
            for path in (tmp_path / "another" / "cells").glob("*t-ce*.json"):
                (tmp_path / "cells" / path.name).parent.mkdir(exist_ok=True)
                path.rename(tmp_path / "cells" / path.name)
        return real(data, members, **how)

    monkeypatch.setattr(loop_module, "run_together", beside_another)
    carry(tmp_path, data)
    assert trained_now == [2, 2, 1], "the first, and the two loops of the other process"


def test_records_that_cannot_be_kept_end_it_at_once_and_leave_no_half(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: Any) -> None:
        path.write_text('{"half')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records_module, "write_json", full)
    said: list[str] = []
    with pytest.raises(UnwritableError, match=r"record .*mf-toy-.*\.json cannot be written: No space left on device"):
        carry(tmp_path, data, say=said.append)
    assert sum(line.startswith("training ") for line in said) == 1
    assert not list((tmp_path / "cells").iterdir())


def test_other_data_of_the_same_name_do_not_mix(data: GivenSplit, tmp_path: Path) -> None:
    carry(tmp_path, data)
    (tmp_path / "cells" / f"{CELLS[-1].name}.json").unlink()
    with pytest.raises(SettingsError, match=r"was made of other data than toy is now: fingerprint \w{8}, and now"):
        carry(tmp_path, given_split(60, 50, 601))
    assert not (tmp_path / "cells" / f"{CELLS[-1].name}.json").exists()
    carry(tmp_path, data)


def test_without_a_place_nothing_is_kept(data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    telling = Telling(watch=stop_at(1, 7))
    with pytest.raises(KeyboardInterrupt), trained(CELLS[:1], data, TERMS, telling):
        pass
    assert not list(tmp_path.iterdir())


def test_one_that_is_alone_has_its_pairs_built_before_the_clock_runs(
    data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def building(split: Any, settings: Any, *rest: Any) -> Any:
        built.append(type(settings.positives).__name__)

    real = loop_module.run_together

    def training(*given: Any, **how: Any) -> Any:
        n_before.append(len(built))
        return real(*given, **how)

    n_before: list[int] = []
    monkeypatch.setattr(loop_module, "build_world", building)
    monkeypatch.setattr(loop_module, "run_together", training)
    for alone in (False, True):
        with trained([Cell(DATA, "mf", "global", alone=alone)], data, TERMS, Telling()):
            pass
        assert len(built) == n_before[-1] == alone


def test_when_earlier_loops_are_done_the_others_are_as_they_were() -> None:
    """Or what a stopped loop kept would be found by nobody."""
    many = [
        Cell(DATA, model, method)
        for model in ("mf", "lightgcn")
        for method in ("uniform", "repeated", "global", "merged", "psp", "psp-ns", "dns", "recommended")
    ]
    found = loops(many, Terms())
    assert max(map(len, found)) > 1
    for n_done in range(len(found)):
        done = [cell for loop in found[:n_done] for cell in loop]
        assert loops([cell for cell in many if cell not in done], Terms()) == found[n_done:]
