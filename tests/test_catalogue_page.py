"""The page of a kind of parts: true to the parts, and well-formed."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import pytest

from pspns import catalogue_page
from pspns.catalogue_page import INTRODUCTIONS, page
from pspns.components import field_notes, find_part, part_names, part_notes
from pspns.search_space import Choices, Space, Span

DOCS = Path(__file__).resolve().parent.parent / "docs"


def cells(line: str) -> list[str]:
    """Of a table's row; nothing of other lines."""
    if not line.startswith("|"):
        return []
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@pytest.mark.parametrize("kind", INTRODUCTIONS)
def test_the_page_in_the_docs_is_what_the_parts_give(kind):
    assert (DOCS / f"{kind}.md").read_text(encoding="utf-8") == page(kind), (
        f"run python -m pspns.catalogue_page {kind} docs/{kind}.md"
    )


@pytest.mark.parametrize("kind", INTRODUCTIONS)
def test_every_part_is_shown_with_all_that_its_file_says(kind):
    sections = dict(re.findall(r"^## ([a-z0-9-]+)\n(.*?)(?=^## |\Z)", page(kind), re.MULTILINE | re.DOTALL))
    assert list(sections) == part_names(kind)
    overview = {row[0]: row for line in page(kind).splitlines() if len(row := cells(line)) == 4}
    for name, text in sections.items():
        notes, part = part_notes(kind, name), find_part(kind, name)
        assert f"```text\n{notes['rule']}\n```\n" in text
        assert notes["paper"] in text.replace("*", "")
        assert overview[f"[`{name}`](#{name})"][2] == notes["cost"]
        rows = {row[0]: row for line in text.splitlines() if (row := cells(line))}
        for field in fields(part):
            row = rows[f"`--negatives.{field.name.replace('_', '-')}`"]
            assert row[1] == {"None": "unset", "False": "false"}.get(str(field.default), str(field.default))
            assert row[2] == field_notes(part)[field.name]


def test_tables_have_as_many_cells_in_every_row():
    for table in re.findall(r"(?:^\|.*\n)+", page("negatives"), re.MULTILINE):
        assert len({len(cells(line)) for line in table.splitlines()}) == 1


def test_what_a_search_tries_stands_beside_the_setting(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Searched:
        search: ClassVar[Space] = {"candidates": Choices((2, 4)), "beta": Span(low=0.1, high=1.0)}

    monkeypatch.setattr(catalogue_page, "find_part", lambda kind, name: Searched)
    rows = {row[0]: row for line in page("negatives").split("## ahns")[1].splitlines() if (row := cells(line))}
    assert rows["setting"] == ["setting", "default", "meaning", "`pspns tune` tries"]
    assert rows["`--negatives.candidates`"][3] == "2, 4"
    assert rows["`--negatives.beta`"][3] == "0.1 to 1.0"
    assert rows["`--negatives.alpha`"][3] == ""
