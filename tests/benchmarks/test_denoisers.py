"""The cost of denoisers on tiny data, after they have been compared with plain training."""

import json
import sys

import pytest
import torch
from toy import given_split

from benchmarks import _steps, denoisers
from pspns.components import part_names
from pspns.data.arrays import write_arrays
from pspns.denoising.r_ce import Reweighting


@pytest.fixture
def call(tmp_path, monkeypatch):
    def carry_out():
        write_arrays(given_split(150, 120, 1500), tmp_path / "toy.npz")
        words = ["--data", tmp_path / "toy.npz", "--device", "cpu", "--models", "mf", "--steps", 2, "--rounds", 1]
        monkeypatch.setattr(sys, "argv", ["denoisers", *map(str, [*words, "--out", tmp_path])])
        monkeypatch.setattr(_steps, "BATCH", 64)  # BOD compares all rows of a batch
        denoisers.main()
        return json.loads((tmp_path / "denoisers-cpu.json").read_text())["results"]

    return carry_out


def test_each_is_timed_beside_plain_training_with_its_loss(call):
    rows = call()
    assert {row["denoiser"] for row in rows} == set(part_names("denoisers"))
    assert [row["beside plain training"] for row in rows if row["denoiser"] == "none"] == ["1.00", "1.00"]
    assert all(float(row["ms a step"]) > 0 for row in rows)
    assert {row["denoiser"]: row["loss"] for row in rows}["deca"] == "bce"


def test_of_one_that_trains_twice_its_own_steps_are_timed(monkeypatch):
    seconds = iter([0.0, 1.0, 10.0, 14.0])  # the teacher's two, then its own
    monkeypatch.setattr(_steps.time, "perf_counter", lambda: next(seconds))
    clock = _steps._Clock(1, 3, torch.device("cpu"))
    for step in (1, 2, 3, 1, 2, 3):
        clock(step, 3, None)
    assert clock.seconds == 4


def test_one_that_changes_what_it_should_not_is_not_timed(call, monkeypatch):
    judge = Reweighting.judge

    def a_little_more(denoiser, rows):
        judged = judge(denoiser, rows)
        return type(judged)(judged.losses * torch.tensor(1.01), judged.kept)

    monkeypatch.setattr(Reweighting, "judge", a_little_more)
    with pytest.raises(AssertionError, match="r-ce differs from plain training"):
        call()
