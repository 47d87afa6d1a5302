"""docs/reliability.md says what the tests do."""

from __future__ import annotations

import re

import pytest
from promises import PROMISES, ROOT, Cases, Marked, all_marked
from reliability_page import COMMAND, page

PAGE = ROOT / "docs" / "reliability.md"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    marked = all_marked(request.config)
    if marked is None:
        pytest.skip("only a part of the suite was collected; the page is about all of it")
    assert PAGE.read_text(encoding="utf-8") == page(marked), f"run {COMMAND}"


def test_cases_are_added_up(request: pytest.FixtureRequest) -> None:
    node = request.node
    made = page([Marked(node, "archives", Cases(3, long=30)), Marked(node, "archives", Cases(1_000, long=1_000))])
    assert "| [Archives](#archives) | 1,003 | 1,030 |" in made
    assert PROMISES["archives"].sentence.split()[0] in made
    assert "* `tests/test_reliability_page.py`: cases are added up (1,003; 1,030 in `make test-long`)" in made
    assert "Killed" not in made


def test_what_is_promised_without_a_test_is_not_on_the_page() -> None:
    shown = PAGE.read_text(encoding="utf-8")
    for sentence in re.findall(r"^\*\*(.+?)\*\*$", shown, re.MULTILINE | re.DOTALL):
        assert " ".join(sentence.split()) in {promise.sentence for promise in PROMISES.values()}
    counted = re.findall(r"^\| \[.+\]\(#(.+)\) \| ([0-9,]+) \|", shown, re.MULTILINE)
    assert all(int(cases.replace(",", "")) > 0 for _, cases in counted)
    assert {key for key, _ in counted} <= PROMISES.keys()
