"""What a benchmark writes down."""

import json

import pytest

from benchmarks._report import Report


def test_markdown_and_json_say_the_same(tmp_path, capsys):
    report = Report("Title", "A note.", ("what", "seconds"))
    report.add("build", 1.5)
    report.add("train", None)
    report.write(tmp_path / "results", "cpu")
    text = (tmp_path / "results" / "cpu.md").read_text()
    assert text.startswith("# Title\n")
    assert text.endswith("| what | seconds |\n| --- | --- |\n| build | 1.5 |\n| train | – |\n")
    written = json.loads((tmp_path / "results" / "cpu.json").read_text())
    assert written["results"] == [{"what": "build", "seconds": 1.5}, {"what": "train", "seconds": None}]
    assert written["machine"]["torch"] in text
    assert "| build | 1.5 |" in capsys.readouterr().out


def test_a_row_must_fit():
    with pytest.raises(ValueError, match="3 cells for 2 columns"):
        Report("Title", "A note.", ("what", "seconds")).add("build", 1, 2)
