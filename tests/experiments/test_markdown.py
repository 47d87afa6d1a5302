"""Sections as Markdown."""

import dataclasses
import re

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.markdown import cell_text, escaped, section_lines, wrapped
from pspns.experiments.sections import Number, Plot, Section, Series, Table, Words

TABLE = Table(
    name="variants-ml-1m",
    caption="All | of it",
    heads=("method", "users"),
    columns=("paper", "p"),
    rows=(
        (("1-hop*2", "a|b"), (Number(26.2, spread=0.11, record="mf-ml-1m, one"), "< 0.001")),
        (("PSP-NS", ""), (Number(-3.14, sign=True, unit=" %"), None)),
    ),
    note="In *percent*.",
)


def text_of(**others):
    section = Section(name="variants", title="Variants", words=("What was asked.", "What came of it."), **others)
    return "\n".join(section_lines(section, "../results/cells"))


def columns(line):
    """As a reader of Markdown splits a row."""
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_a_table_row_by_row():
    lines = text_of(tables=(TABLE,)).splitlines()
    assert lines[lines.index("**All \\| of it**") + 2 :][:4] == [
        "| method | users | paper | p |",
        "|---|---|---:|---|",  # words to the left
        "| 1-hop\\*2 | a\\|b | [26.20 ± 0.11](../results/cells/mf-ml-1m%2C%20one.json) | &lt; 0.001 |",
        "| PSP-NS |  | -3.14 % | – |",
    ]
    assert lines[-1] == "In *percent*."  # words are Markdown already
    assert {len(columns(line)) for line in lines if line.startswith("|")} == {4}


def test_words_stand_below_the_heading_one_paragraph_each():
    assert text_of().startswith("## Variants\n\nWhat was asked.\n\nWhat came of it.\n")


def test_the_warning_stands_where_the_test_shapes_figures_and_nowhere_else():
    quoted = text_of(is_shaped_by_test=True).partition("What was asked.")[0]
    assert all(line.startswith("> ") for line in quoted.splitlines()[2:] if line)
    assert PUBLISHED.warning in quoted.replace("\n> ", " ")
    assert PUBLISHED.warning not in text_of().replace("\n", " ")


def test_plots_are_named_with_their_series():
    plot = Plot("rank", "Recall by rank", "rank", "Recall@20", (Series("strict", (1.0,), (2.0,)),))
    assert "Plot `rank` of the report: Recall by rank; Recall@20 by rank (strict)." in text_of(plots=(plot,))


def test_words_with_a_tone_stand_as_words_to_the_left():
    table = Table("t", "Claims", ("claim",), ("strict",), ((("It helps",), (Words("**holds**: all | 4", "better"),)),))
    lines = text_of(tables=(table,)).splitlines()
    assert lines[-2:] == ["|---|---|", "| It helps | **holds**: all \\| 4 |"]


def test_nothing_that_markdown_would_read_is_left_in_a_cell():
    assert escaped("a [b] *c* | <d>\ne") == "a \\[b\\] \\*c\\* \\| &lt;d> e"
    assert cell_text(Number(1.0, note="limit"), "there") == "1.00 limit"
    assert cell_text(None, "there") == "–"


def test_lines_are_no_longer_than_elsewhere():
    words = " ".join(["word"] * 100)
    assert max(map(len, wrapped(words).splitlines())) <= 120
    assert wrapped(words).split() == words.split()


def test_a_table_of_the_papers_figures_alone_is_only_named():
    rows = ((("RNS", ""), (Number(26.68), None)),)
    text = text_of(tables=(dataclasses.replace(TABLE, rows=rows),))
    assert text.endswith("**All \\| of it**: there is no figure yet.\n")
    assert "26.68" not in text
    assert not dataclasses.replace(TABLE, rows=()).is_measured


def test_a_note_that_repeats_is_referred_to():
    text = text_of(tables=(TABLE, dataclasses.replace(TABLE, caption="Again")))
    assert text.count("In *percent*.") == 1
    assert text.endswith("The note below *All \\| of it* holds here, too.\n")
