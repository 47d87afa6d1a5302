from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import pspns
from pspns.components import KINDS, authors_and_year, part_names, part_notes

Cli = Callable[..., Any]


def test_the_kinds(command: Cli) -> None:
    kinds = {row["name"]: row["parts"] for row in json.loads(command("list", "--json").out)}
    assert set(kinds) == {*KINDS, "experiments", "protocols", "recipes", "settings"}
    assert kinds["models"] == len(part_names("models"))


@pytest.mark.parametrize("kind", [*KINDS, "experiments", "protocols", "recipes"])
def test_every_kind_can_be_listed(command: Cli, kind: str) -> None:
    rows = json.loads(command("list", kind, "--json").out)
    assert rows
    assert all(row["name"] and row["meaning"] for row in rows)
    table = command("list", kind).out
    assert all(f"│ {row['name']} " in table for row in rows)


def test_samplers_are_listed_with_their_papers(command: Cli) -> None:
    rows = {row["name"]: row for row in json.loads(command("list", "negatives", "--json").out)}
    table = command("list", "negatives").out
    assert {cell.strip() for cell in table.splitlines()[2].split("┃")} == {"", "name", "meaning", "paper"}
    for name in part_names("negatives"):
        notes = part_notes("negatives", name)
        assert {key: rows[name][key] for key in notes} == notes
        (line,) = [line for line in table.splitlines() if line.startswith(f"│ {name} ")]
        assert line.split("│")[-2].strip() == authors_and_year(notes["paper"]) != notes["paper"]
    assert "paper" not in command("list", "models").out.splitlines()[2]


def test_losses_stand_beside_the_metrics(command: Cli) -> None:
    rows = {row["name"]: row["meaning"] for row in json.loads(command("list", "metrics", "--json").out)}
    assert list(rows) == [*part_names("metrics"), "valid-loss", "revised-valid-loss"]
    assert "lower is better; only to select by" in rows["revised-valid-loss"]


def test_settings(command: Cli) -> None:
    rows = {(row["option"], row["of"]): row for row in json.loads(command("list", "settings", "--json").out)}
    assert rows["--training.batch-size", ""]["default"] == 2048
    assert rows["--evaluation.k", ""]["default"] == [20, 30]
    assert rows["--model.rank", "svd"]["meaning"].startswith("Singular values kept")
    table = command("list", "settings").out
    assert "20,30" in table
    assert "unset" in table


def test_an_unknown_kind(command: Cli) -> None:
    done = command("list", "modles")
    assert (done.code, done.out) == (2, "")
    assert "no list named 'modles'" in done.err
    assert "did you mean 'models'?" in done.err


@pytest.mark.parametrize("words", [["list", "models"], ["list", "models", "--json"]])
def test_a_reader_that_has_gone_is_met_with_silence(words: list[str]) -> None:
    # With a buffer, as usual: then the last of the output is written when the interpreter is about to end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pspns", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) != 0


def test_help_and_version(command: Cli) -> None:
    assert command("--version").out == f"pspns {pspns.__version__}\n"
    shown = command("train", "-h").out
    assert "--data-seed" in shown
    assert "pspns list settings" in shown
    assert command("trian").code == 2
