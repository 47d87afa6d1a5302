"""Ids that would be formulas, markup or orders to a terminal are shown as what they are: text."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pspns.api import fit
from pspns.cli.screen import complain, say, show_table, tell, warn
from pspns.report.page import write_page

pytestmark = pytest.mark.promise("harmless-ids")

FORMULAS = [
    *("=cmd", "=1+1", "=cmd|' /C calc'!A0", '=HYPERLINK("http://x.example","a")', "+1+1", "-1+1", "-9", "@SUM(1)"),
    *("\t=1", "\r=1", "\n=1", "＝1+1", "＋1+1", "－1+1", "＠SUM(1)"),
]
CELLS = ["a,=1+1", "a;=1+1", "a\t=1+1", "a\n=1+1", 'a"\n=1+1', '"', "'=1"]
MARKUP = [
    *("<script>alert(1)</script>", "</li></ul><script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
    *("<svg/onload=1>", "</style><b>", "<!--", "]]>", "&lt;b&gt;", '" onmouseover="alert(1)', "{{ 7 * 7 }}", "{% x %}"),
]
ESCAPES = [
    *("\x1b[31mred", "\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x07", "a\x08\x08b", "a\rb", "two\nlines", "\x7f"),
    *("\x85", "[red]x[/red]", "[/]", "right\u202eleft", "\u2066x\u2069", "\u200b\u2028"),
]
HOSTILE = [*FORMULAS, *CELLS, *MARKUP, *ESCAPES]
FIRST_OF_A_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everyone has three items; users and items have the same names."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    rows = [(user, HOSTILE[(place + step) % len(HOSTILE)]) for place, user in enumerate(HOSTILE) for step in (0, 1, 2)]
    fit(pl.DataFrame(rows, schema=["user", "item"], orient="row"), model="popular", split="none", out=folder)
    return folder


@pytest.fixture(scope="module")
def lists(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everybody's lists, as CSV and as Parquet."""
    from pspns.cli.recommend import recommend_and_show

    folder = tmp_path_factory.mktemp("lists")
    for name in ("lists.csv", "lists.parquet"):
        recommend_and_show(run, None, None, True, len(HOSTILE), "none", folder / name, overwrite=False)
    return folder


def is_quiet(text: str) -> bool:
    """Nothing in it but characters that are seen, spaces and the ends of lines."""
    return not any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in text.replace("\n", ""))


def shows(text: str, hostile: str) -> bool:
    """Is everything of the id there that can be seen?"""
    return all(piece in text for piece in re.split(r"[\x00-\x1f\x7f-\x9f\u200b\u2028\u202e\u2066\u2069]+", hostile))


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
class TestFiles:
    def test_a_spreadsheet_computes_nothing(self, lists: Path, hostile: str) -> None:
        text = (lists / "lists.csv").read_bytes().decode()
        rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
        shown = f"'{hostile}" if hostile in FORMULAS else hostile
        assert sum(row[0] == shown for row in rows) == sum(row[2] == shown for row in rows) == len(HOSTILE)
        assert not [cell for row in rows for cell in row if cell.startswith(FIRST_OF_A_FORMULA)]

    def test_parquet_has_it_unchanged(self, lists: Path, hostile: str) -> None:
        frame = pl.read_parquet(lists / "lists.parquet")
        assert len(frame.filter(user=hostile)) == len(frame.filter(item=hostile)) == len(HOSTILE)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
class TestTerminal:
    def test_a_list(self, command: Callable[..., Any], run: Path, hostile: str) -> None:
        done = command("recommend", run, "--user", hostile, "--exclude", "none", "-k", len(HOSTILE))
        assert done.code == 0
        assert is_quiet(done.out + done.err)
        assert shows(done.out, hostile)
        # Title, head and frame are five lines: no id has made one of its own.
        assert len(done.out.splitlines()) == len(HOSTILE) + 5

    def test_somebody_unknown(self, command: Callable[..., Any], run: Path, hostile: str) -> None:
        done = command("recommend", run, "--user", f"{hostile} again")
        assert done.code == 0
        assert is_quiet(done.out + done.err)
        assert shows(done.err, f"nothing is known of user '{hostile} again'")
        assert len(done.err.splitlines()) == 1

    def test_an_item_unknown(self, command: Callable[..., Any], run: Path, hostile: str) -> None:
        done = command("recommend", run, "--items", f"{hostile} again")
        assert done.code == 1
        assert is_quiet(done.err)
        assert "are not in the model" in done.err
        assert len(done.err.splitlines()) == 1

    def test_every_way_to_speak(self, capsys: pytest.CaptureFixture[str], hostile: str) -> None:
        for speak in (say, tell, complain, warn):
            speak(f"user '{hostile}'")
        show_table(hostile, [hostile, "n"], [[hostile, hostile]])
        out, err = capsys.readouterr()
        assert is_quiet(out + err)
        assert shows(out, hostile)
        assert len(err.splitlines()) == 3
        assert len(out.splitlines()) == 1 + 6


def test_what_was_changed_is_said(command: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    done = command("recommend", run, "--all", "--out", tmp_path / "lists.csv", "-k", 99)
    assert f"{2 * len(FORMULAS)} ids begin as a formula does: a ' stands in front there" in done.err
    assert "formula" not in command("recommend", run, "--all", "--out", tmp_path / "lists.parquet").err


def test_numbers_stay_numbers(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("user,item\n=a,-1\n=a,-2\nb,-1\nb,3\n")
    words = ("--split", "none", "--model", "popular", "--out", tmp_path / "run")
    assert command("train", "--data", tmp_path / "clicks.csv", *words).code == 0
    done = command("recommend", tmp_path / "run", "--all", "--out", tmp_path / "lists.csv", "--exclude", "none")
    assert "1 id begins as a formula does" in done.err
    text = (tmp_path / "lists.csv").read_text()
    assert "\n'=a,1,-1,2.0," in text
    assert "\nb,1,-1,2.0," in text


def test_names_of_columns_and_files(command: Callable[..., Any], tmp_path: Path) -> None:
    """Which are told when data are read."""
    file = tmp_path / "\x1b[31m<b>=1.csv"
    text = io.StringIO(newline="")
    csv.writer(text).writerows(
        [["user", "item", "\x1b[2J", "<script>", "=1+1"], ["a", "x", 1, 2, 3], ["b", "y", 4, 5, 6]]
    )
    file.write_text(text.getvalue(), newline="")
    words = ("--split", "none", "--model", "popular", "--out", tmp_path / "run")
    done = command("train", "--data", file, *words)
    assert done.code == 0
    assert is_quiet(done.out + done.err)
    assert "[2J" in done.err


class Seen(HTMLParser):
    """What a browser would make of a page: tags, attributes, text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def pages(clicks: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """The report of a run whose data told of nothing but a, and of one whose data told of every hostile name."""
    folder = tmp_path_factory.mktemp("pages")
    fit(clicks, model="popular", baselines=False, out=folder / "plain")
    shutil.copytree(folder / "plain", folder / "hostile")
    for name, told in (("plain", "a"), ("hostile", None)):
        path = folder / name / "result.json"
        result = json.loads(path.read_text())
        result["data"]["facts"] = [f"fact {told or hostile} end" for hostile in HOSTILE]
        result["data"]["source"] = told or "".join(HOSTILE)
        path.write_text(json.dumps(result))
        write_page([folder / name], folder / f"{name}.html")
    return [Seen((folder / f"{name}.html").read_bytes().decode()) for name in ("plain", "hostile")]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_browser_shows_it_as_text(pages: list[Seen], hostile: str) -> None:
    plain, page = pages
    assert page.tags == plain.tags
    assert page.attributes == plain.attributes
    assert f"fact {hostile} end" in page.text
