from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pspns.api import fit
from pspns.cli.screen import complain, printable, say, show_table, tell, training_progress, warn
from pspns.training.stopping import Evaluation

NASTY = ["[red]x[/red]", "\x1b[31mred\x07", "two\nlines", "[/]", "right\u202eleft"]
SHOWN = ["[red]x[/red]", "\\x1b[31mred\\x07", "two\\nlines", "[/]", "right\\u202eleft"]


def test_printable() -> None:
    assert [printable(text) for text in NASTY] == SHOWN
    assert printable("Zoë 日本 ± –") == "Zoë 日本 ± –"


@pytest.mark.parametrize("speak", [say, tell, complain, warn])
def test_messages_show_ids_as_they_are(speak: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    for text, shown in zip(NASTY, SHOWN, strict=True):
        speak(f"user '{text}'")
        written = "".join(capsys.readouterr())
        assert written.endswith(f"user '{shown}'\n")
        assert "\x1b" not in written


def test_results_and_messages_go_to_their_own_streams(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a result")
    say("a message")
    complain("an error")
    out, err = capsys.readouterr()
    assert out == "a result\n"
    assert err == "a message\npspns: error: an error\n"


def test_tables_show_ids_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(NASTY[0], [NASTY[1], "n"], [[text, "1"] for text in NASTY])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(f"│ {shown} " in out for shown in SHOWN)
    assert out.startswith(SHOWN[0])


def test_long_lines_are_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    say("x" * 500)
    assert capsys.readouterr().err == "x" * 500 + "\n"


def test_ids_of_the_data_on_the_terminal(
    command: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.DataFrame({"user": ["a", "a", *NASTY], "item": ["x", "y", *NASTY[::-1]]})
    fit(frame, model="popular", split="none", out=tmp_path / "run")
    done = command("recommend", tmp_path / "run", "--user", NASTY[1])
    assert done.code == 0
    assert f"For {SHOWN[1]}" in done.out
    assert f"│ {SHOWN[0]} " in done.out
    assert "\x1b" not in done.out + done.err
    unknown = command("recommend", tmp_path / "run", "--user", "\x1b[2J[bold]")
    assert "nothing is known of user '\\x1b[2J[bold]'" in unknown.err
    wrong = command("recommend", tmp_path / "run", "--items", "\x1b[2J")
    assert wrong.code == 1
    assert "\x1b" not in wrong.err


def test_progress_off_a_terminal_is_a_line_for_each_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress("recall@20", "validation") as watch:
        watch(1, 10, None)
        watch(
            5, 10, Evaluation(5, 2.0, {0: 1, 1: 1}, {0: {"recall@20": 0.25}, 1: {"recall@20": 0.5}}, {0: 0.6, 1: 0.8})
        )
        watch(10, 10, Evaluation(10, 4.0, {0: 2}, {0: {}}, {0: 0.5}))
    out, err = capsys.readouterr()
    assert out == ""
    assert [" ".join(line.split()) for line in err.splitlines()] == [
        "step 5 (2 s) recall@20 on validation 25.00 50.00 loss 0.7000",
        "step 10 (4 s) loss 0.5000",
    ]


def test_a_terminal_without_unicode_is_no_error(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "pspns", "list", "settings"], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Weight \\u03bb of the squared length" in done.stdout


def test_json_output_is_only_json(command: Callable[..., Any]) -> None:
    done = command("list", "models", "--json")
    assert done.err == ""
    assert {row["name"] for row in json.loads(done.out)} >= {"mf", "svd"}
