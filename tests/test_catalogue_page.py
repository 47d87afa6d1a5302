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
from pspns.settings import PART_SECTIONS

SECTIONS = {kind: section for section, kind in PART_SECTIONS.items()}
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
        if name != "none":
            assert notes["paper"] in text.replace("*", "")
        assert overview[f"[`{name}`](#{name})"][2] == notes["cost"]
        rows = {row[0]: row for line in text.splitlines() if (row := cells(line))}
        for field in fields(part):
            row = rows[f"`--{SECTIONS[kind]}.{field.name.replace('_', '-')}`"]
            words = {"None": "unset", "False": "false", "True": "true"}
            assert row[1] == words.get(str(field.default), str(field.default))
            assert row[2] == field_notes(part)[field.name]


@pytest.mark.parametrize("kind", INTRODUCTIONS)
def test_tables_have_as_many_cells_in_every_row(kind):
    for table in re.findall(r"(?:^\|.*\n)+", page(kind), re.MULTILINE):
        assert len({len(cells(line)) for line in table.splitlines()}) == 1


def test_losses_stand_beside_each_denoiser():
    text = page("denoisers")
    for name in part_names("denoisers"):
        losses = getattr(find_part("denoisers", name), "losses", ())
        shown = [f"* Loss: {' or '.join(f'`{loss}`' for loss in losses)}"] if losses else []
        section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert [line for line in section.splitlines() if line.startswith("* Loss:")] == shown


def test_what_is_said_to_go_with_what_is_what_the_parts_say():
    def named(text):
        return set(re.findall(r"`([a-z-]+)`", text))

    rules = dict(re.findall(r"^\* \*\*(\w+)\.\*\* (.*?)(?=^\* |^$)", page("denoisers"), re.MULTILINE | re.DOTALL))
    parts = {name: find_part("denoisers", name) for name in part_names("denoisers") if name != "none"}
    with_both, with_bpr, with_bce = (named(text) & set(parts) for text in rules["Loss"].split(". "))
    for chosen, losses in ((with_both, {"bpr", "bce"}), (with_bpr, {"bpr"}), (with_bce, {"bce"})):
        assert chosen == {name for name, part in parts.items() if set(part.losses) == losses}
    with_any, with_items, _ = (named(text) for text in rules["Negatives"].split(". "))
    assert with_any == {name for name, part in parts.items() if not getattr(part, "needs_items", False)}
    assert with_items & set(parts) == set(parts) - with_any
    vectors = {
        name for name in part_names("negatives") if not getattr(find_part("negatives", name)(), "only_items", True)
    }
    assert with_items - set(parts) == {*vectors, "dns-m-n"}
    assert named(rules["Ramps"]) & set(parts) == {name for name, part in parts.items() if hasattr(part, "ramp_epochs")}
    assert named(rules["Time"]) == {name for name, part in parts.items() if getattr(part, "needs_teacher", False)}


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
