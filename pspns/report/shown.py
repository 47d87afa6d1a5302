"""What a page shows of an experiment's section, as values for a template."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.sections import Section, Table, TableCell
from pspns.report.downloads import data_uri, file_name, holds_sentences, plot_as_csv, table_as_csv, table_as_latex
from pspns.report.figures import figure, interval, spread
from pspns.report.plots import plot_series

SHORT_WARNING = "Figures under `published`: held-out labels shape the candidate set."

Heads = tuple[str, ...]
ShownRow = tuple[Heads, list["ShownCell"]]
"""What the row is, and its cells."""


@dataclass(frozen=True)
class ShownCell:
    figure: str = ""
    unit: str = ""
    spread: str = ""
    interval: str = ""
    note: str = ""
    words: str = ""
    tone: str = ""
    anchor: str = ""  # of its record on this page; empty: there is none

    @property
    def is_empty(self) -> bool:
        return not self.figure and not self.words


@dataclass(frozen=True)
class Column:
    """Its title, and how much room each piece of its figures takes, in letters, so that they stand in line."""

    title: str
    is_words: bool
    spread: int
    interval: int
    has_tone: bool


@dataclass(frozen=True)
class Download:
    words: str
    file: str
    address: str


@dataclass(frozen=True)
class ShownTable:
    anchor: str
    caption: str
    head: str
    columns: list[Column]
    blocks: list[tuple[str, list[ShownRow]]]
    """Heading, which may be empty, and rows."""
    note: str
    note_is_at: str
    """The anchor of the table of this section that has the same note."""
    downloads: list[Download]


@dataclass(frozen=True)
class ShownPlot:
    anchor: str
    svg: str
    caption: str
    downloads: list[Download]


@dataclass(frozen=True)
class ShownSection:
    anchor: str
    section: Section
    warning: str
    tables: list[ShownTable]
    plots: list[ShownPlot]

    @property
    def missing(self) -> str:
        """How many, in words."""
        n = len(self.section.missing)
        return f"{n:,} record{' is' if n == 1 else 's are'} missing" if n else ""


class Anchors:
    """Names of places of the page, no two alike."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, name: str) -> str:
        """
        >>> anchors = Anchors()
        >>> anchors.new("table a"), anchors.new("table-a")
        ('table-a', 'table-a-2')
        """
        plain_name = file_name(name)
        names = itertools.chain([plain_name], (f"{plain_name}-{number}" for number in itertools.count(2)))
        found = next(name for name in names if name not in self._taken)
        self._taken.add(found)
        return found


def show(section: Section, of_records: Mapping[str, str], anchors: Anchors) -> ShownSection:
    anchor = anchors.new(section.name)
    warning = PUBLISHED.warning if section.is_shaped_by_test else ""
    short = SHORT_WARNING if warning else ""
    notes: dict[str, str] = {}  # → the anchor of the first table that has it
    tables = []
    for table in section.tables:
        place = anchors.new(f"table-{table.name}")
        same = notes.setdefault(table.note, place) if table.note else place
        tables.append(_show_table(table, place, same if same != place else "", of_records, warning, short))
    plots = []
    for plot in section.plots:
        place = anchors.new(f"plot-{plot.name}")
        download = _download("CSV", f"{plot.name}.csv", plot_as_csv(plot, warning), "text/csv")
        plots.append(ShownPlot(place, plot_series(place, plot), f"{_closed(plot.caption)} {short}".strip(), [download]))
    return ShownSection(anchor, section, warning, tables, plots)


def _show_table(
    table: Table, anchor: str, note_is_at: str, of_records: Mapping[str, str], warning: str, short: str
) -> ShownTable:
    columns = [
        _column(title, cells)
        for title, cells in zip(table.columns, zip(*(cells for _, cells in table.rows), strict=True), strict=False)
    ]
    rows = [(heads, [_cell(cell, of_records) for cell in cells]) for heads, cells in table.rows]
    blocks = _blocks(rows)
    is_split = any(heading for heading, _ in blocks)
    return ShownTable(
        anchor=anchor,
        caption=table.caption,
        head=table.heads[-1] if is_split else ", ".join(table.heads),
        columns=columns or [Column(title, False, 0, 0, False) for title in table.columns],
        blocks=blocks,
        note=" ".join(filter(None, ["" if note_is_at else table.note, short])),
        note_is_at=note_is_at,
        downloads=[
            _download("CSV", f"{table.name}.csv", table_as_csv(table, warning), "text/csv"),
            _download("LaTeX", f"{table.name}.tex", table_as_latex(table, warning), "application/x-tex"),
        ],
    )


def _column(title: str, cells: Sequence[TableCell]) -> Column:
    shown = [_cell(cell, {}) for cell in cells]
    return Column(
        title=title,
        is_words=holds_sentences(cells),
        spread=max(len(cell.spread) for cell in shown),
        interval=max(len(cell.interval) for cell in shown),
        has_tone=any(cell.tone in ("better", "worse") for cell in shown),
    )


def _cell(cell: TableCell, of_records: Mapping[str, str]) -> ShownCell:
    if cell is None:
        return ShownCell()
    if isinstance(cell, str):
        return ShownCell(words=cell)
    has_interval = cell.low is not None and cell.high is not None
    return ShownCell(
        figure=figure(cell),
        unit=cell.unit,
        spread=f"± {spread(cell)}" if cell.spread is not None else "",
        interval="{} to {}".format(*interval(cell)) if has_interval else "",
        note=cell.note,
        tone=cell.tone,
        anchor=of_records.get(cell.record, ""),
    )


def _blocks(
    rows: list[ShownRow],
) -> list[tuple[str, list[ShownRow]]]:
    """Rows under a heading each, where what they are has several parts and they share all but the last."""
    groups = [
        (heading, list(members))
        for heading, members in itertools.groupby(rows, key=lambda row: tuple(map(str, row[0][:-1])))
    ]
    if not any(heading for heading, _ in groups) or 2 * len(groups) > len(rows):
        return [("", rows)]
    return [(", ".join(heading), [(heads[-1:], cells) for heads, cells in members]) for heading, members in groups]


def _download(words: str, name: str, text: str, kind: str) -> Download:
    return Download(words, file_name(name), data_uri(text, kind))


def _closed(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
