"""What a page shows of an experiment's section, as values for a template."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.sections import Number, Plot, Section, Table, TableCell, Words
from pspns.report.downloads import data_uri, file_name, holds_sentences, plot_as_csv, table_as_csv, table_as_latex
from pspns.report.figures import SHORT, figure, interval, lettered, spread
from pspns.report.marks import plain
from pspns.report.plots import plot_series

SHORT_WARNING = "Figures under `published`: held-out labels shape the candidate set."
MANY = 8
"""Columns beyond which they stand closer together."""

Heads = tuple[str, ...]
ShownRow = tuple[Heads, list["ShownCell"]]
"""What the row is, and its cells."""


@dataclass(frozen=True)
class ShownDetail:
    words: str
    tone: str
    anchors: list[str]
    """Of its records on this page."""


@dataclass(frozen=True)
class ShownCell:
    figure: str = ""
    unit: str = ""
    spread: str = ""
    interval: str = ""
    note: str = ""  # short enough to stand beside the figure
    footnote: str = ""  # the letter of one below the table
    words: str = ""
    details: tuple[ShownDetail, ...] = ()
    tone: str = ""
    anchor: str = ""  # of its record on this page; empty: there is none

    @property
    def is_empty(self) -> bool:
        return not self.figure and not self.words

    @property
    def is_short(self) -> bool:
        """Whether its words stand on one line, as a p-value must."""
        return len(plain(self.words)) <= SHORT


@dataclass(frozen=True)
class Column:
    """Its title, which may have a second part below it, and how much room each piece of its figures takes, in letters,
    so that they stand in line."""

    title: str
    below: str
    span: int  # columns under the title; 0: it stands above an earlier one
    is_words: bool
    spread: int
    interval: int
    note: int
    has_footnotes: bool
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
    footnotes: list[tuple[str, str]]
    """Letter and words."""
    read_as: tuple[str, str] | None
    """Anchor and caption of the table of this section that has the same note."""
    kinds: str
    """Classes for its style: many columns, long names of rows."""
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
    empty: list[tuple[str, str]]
    """Anchor and caption of tables without a figure of ours."""
    plots: list[ShownPlot]

    @property
    def missing(self) -> str:
        """How many records, in words; empty: none."""
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
    first_with: dict[str, tuple[str, str]] = {}  # note → anchor and caption
    tables, empty = [], []
    for table in section.tables:
        place = (anchors.new(f"table-{table.name}"), table.caption)
        if not table.is_measured:
            empty.append(place)
            continue
        same = first_with.setdefault(table.note, place) if table.note else place
        warning = _warning(section, table)
        tables.append(_show_table(table, place[0], same if same != place else None, of_records, warning))
    plots = []
    for plot in section.plots:
        where, warning = anchors.new(f"plot-{plot.name}"), _warning(section, plot)
        # A table may have the plot's name.
        download = _download("CSV", f"{plot.name}-plot.csv", plot_as_csv(plot, warning), "text/csv")
        caption = f"{_closed(plot.caption)} {SHORT_WARNING if warning else ''}".rstrip()
        plots.append(ShownPlot(where, plot_series(where, plot), caption, [download]))
    return ShownSection(anchor, section, _warning(section), tables, empty, plots)


def _warning(section: Section, part: Table | Plot | None = None) -> str:
    """Of a part that says it has no need of it none, whatever its section has."""
    own = part.is_shaped_by_test if part else None
    return PUBLISHED.warning if (section.is_shaped_by_test if own is None else own) else ""


def _show_table(
    table: Table, anchor: str, read_as: tuple[str, str] | None, of_records: Mapping[str, str], warning: str
) -> ShownTable:
    footnotes = lettered(table)
    rows = [(heads, [_cell(cell, of_records, footnotes) for cell in cells]) for heads, cells in table.rows]
    blocks = _blocks(rows)
    is_split = any(heading for heading, _ in blocks)
    return ShownTable(
        anchor=anchor,
        caption=table.caption,
        head=table.heads[-1] if is_split else ", ".join(table.heads),
        columns=_columns(table, [cells for _, cells in rows]),
        blocks=blocks,
        note=" ".join(filter(None, ["" if read_as else table.note, SHORT_WARNING if warning else ""])),
        footnotes=[(letter, words) for words, letter in footnotes.items()],
        read_as=read_as,
        kinds=" ".join(
            kind
            for kind, holds in (
                ("many", len(table.columns) > MANY),
                ("wordy", holds_sentences([heads[0] for _, block in blocks for heads, _ in block])),
            )
            if holds
        ),
        downloads=[
            _download("CSV", f"{table.name}.csv", table_as_csv(table, warning), "text/csv"),
            _download("LaTeX", f"{table.name}.tex", table_as_latex(table, warning), "application/x-tex"),
        ],
    )


def _columns(table: Table, rows: Sequence[Sequence[ShownCell]]) -> list[Column]:
    found = []
    titles = [title.partition(", ") for title in table.columns]
    for first, members in itertools.groupby(range(len(titles)), key=lambda place: titles[place][0]):
        places = list(members)
        # Neighbours whose titles begin alike share that beginning.
        share = len(places) > 1 and all(titles[place][2] for place in places)
        for place in places:
            shown = [row[place] for row in rows]
            column = Column(
                title=first if share else table.columns[place],
                below=titles[place][2] if share else "",
                span=1 if not share else len(places) if place == places[0] else 0,
                is_words=holds_sentences([cells[place] for _, cells in table.rows]),
                spread=max((len(cell.spread) for cell in shown), default=0),
                interval=max((len(cell.interval) for cell in shown), default=0),
                note=max((len(plain(cell.note)) for cell in shown), default=0),
                has_footnotes=any(cell.footnote for cell in shown),
                has_tone=any(cell.figure and cell.tone in ("better", "worse") for cell in shown),
            )
            found.append(column)
    return found


def _cell(cell: TableCell, of_records: Mapping[str, str], footnotes: Mapping[str, str]) -> ShownCell:
    if cell is None:
        return ShownCell()
    if isinstance(cell, Words):
        return ShownCell(words=cell.text, tone=cell.tone, details=tuple(_details(cell, of_records)))
    if not isinstance(cell, Number):
        return ShownCell(words=cell)
    has_interval = cell.low is not None and cell.high is not None
    return ShownCell(
        figure=figure(cell),
        unit=cell.unit,
        spread=f"± {spread(cell)}" if cell.spread is not None else "",
        interval="{} to {}".format(*interval(cell)) if has_interval else "",
        note="" if cell.note in footnotes else cell.note,
        footnote=footnotes.get(cell.note, ""),
        tone=cell.tone,
        anchor=of_records.get(cell.record, ""),
    )


def _details(cell: Words, of_records: Mapping[str, str]) -> Iterator[ShownDetail]:
    for one in cell.details:
        yield ShownDetail(one.text, one.tone, [of_records[name] for name in one.records if name in of_records])


def _blocks(rows: list[ShownRow]) -> list[tuple[str, list[ShownRow]]]:
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
