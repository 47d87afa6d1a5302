"""Sections as Markdown: words, and tables whose figures lead to their records. Plots are left out, and named."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.sections import Number, Plot, Section, Table, TableCell, Words

WIDTH = 120
ESCAPED = {"|": "\\|", "*": "\\*", "[": "\\[", "]": "\\]", "<": "&lt;", "\n": " "}
STRONG = re.compile(r"(\*\*[^*|<\[\]\n]+\*\*)")  # in which nothing needs to be escaped
WARNING = f"Under `{PUBLISHED.name}` {PUBLISHED.warning}."


def section_lines(section: Section, folder: str, *, level: int = 2) -> Iterator[str]:
    """A heading and all that is below it; `folder` is where the records lie, seen from the document."""
    yield from (f"{'#' * level} {section.title}", "")
    if section.is_shaped_by_test:
        yield from (wrapped(f"> {WARNING}", rest="> "), "")
    for paragraph in section.words:
        yield from (wrapped(paragraph), "")
    notes: dict[str, str] = {}  # note → caption of the first table that has it
    for table in section.tables:
        if not table.is_measured:
            yield from (f"**{escaped(table.caption)}**: there is no figure yet.", "")
            continue
        yield from table_lines(table, folder)
        if table.note in notes:
            yield from (wrapped(f"The note below *{escaped(notes[table.note])}* holds here, too."), "")
        elif table.note:
            notes[table.note] = table.caption
            yield from (wrapped(table.note), "")
    yield from plots_lines(section.plots)


def table_lines(table: Table, folder: str) -> Iterator[str]:
    yield from (f"**{escaped(table.caption)}**", "")
    yield row_line(map(escaped, (*table.heads, *table.columns)))
    columns = zip(*(cells for _, cells in table.rows), strict=True)
    sides = ["---" if any(isinstance(cell, str | Words) for cell in column) else "---:" for column in columns]
    yield f"|{'---|' * len(table.heads)}{''.join(f'{side}|' for side in sides or ['---:'] * len(table.columns))}"
    for heads, cells in table.rows:
        yield row_line([*map(escaped, heads), *(cell_text(cell, folder) for cell in cells)])
    yield ""


def plots_lines(plots: Iterable[Plot]) -> Iterator[str]:
    """What the report draws, in words."""
    for plot in plots:
        names = ", ".join(one.label for one in plot.series)
        yield from (wrapped(f"Plot `{plot.name}` of the report: {plot.caption}; {plot.y} by {plot.x} ({names})."), "")


def row_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell_text(cell: TableCell, folder: str) -> str:
    """Figures lead to their records.

    >>> cell_text(Number(26.2, spread=0.11, record="mf ml-1m"), "../results")
    '[26.20 ± 0.11](../results/mf%20ml-1m.json)'
    """
    if cell is None:
        return "–"
    text = escaped(str(cell))
    return f"[{text}]({folder}/{quote(cell.record)}.json)" if isinstance(cell, Number) and cell.record else text


def escaped(text: str) -> str:
    """As it may stand in a table; what is **strong** stays so.

    >>> escaped("**holds**: 1-hop*2 | p < 0.001")
    '**holds**: 1-hop\\\\*2 \\\\| p &lt; 0.001'
    """
    return "".join(
        piece if STRONG.fullmatch(piece) else "".join(ESCAPED.get(letter, letter) for letter in piece)
        for piece in STRONG.split(text)
    )


def wrapped(text: str, *, rest: str = "") -> str:
    """In lines; `rest` begins all but the first."""
    return textwrap.fill(text, WIDTH, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
