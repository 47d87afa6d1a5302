"""What an experiment shows: words, tables and plots as plain values, which pages and documents draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Tone = Literal["", "better", "worse", "missing"]


@dataclass(frozen=True)
class Number:
    """A figure of a table, in the unit of its column; where it comes from stands beside it."""

    value: float
    digits: int = 2
    sign: bool = False  # + before what is above zero
    unit: str = ""  # behind the figure, such as %
    spread: float | None = None  # deviation over seeds
    low: float | None = None  # interval over users
    high: float | None = None
    note: str = ""  # in words, shown beside the figure
    record: str = ""  # the name of the record it was read from; empty: printed in the paper
    tone: Tone = ""

    def __str__(self) -> str:
        """As text.

        >>> str(Number(26.2, spread=0.11)), str(Number(-3.14159, sign=True, unit=" %", digits=1))
        ('26.20 ± 0.11', '-3.1 %')
        """
        text = self._written(self.value) + self.unit
        if self.spread is not None:
            text += f" ± {self.spread:,.{self.digits}f}"
        if self.low is not None and self.high is not None:
            text += f" ({self._written(self.low)} to {self._written(self.high)})"
        return f"{text} {self.note}".rstrip()

    def _written(self, value: float) -> str:
        # z: what is rounded to zero has no minus before it.
        return f"{value:{'+' if self.sign else ''}z,.{self.digits}f}"


@dataclass(frozen=True)
class Detail:
    """One of the things that a cell in words sums up."""

    text: str
    tone: Tone = ""
    records: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """A cell in words that says which way it tells."""

    text: str
    tone: Tone = ""
    details: tuple[Detail, ...] = ()
    """What it sums up, one by one: pages and downloads have it, the text stands for it elsewhere."""

    def __str__(self) -> str:
        return self.text


TableCell = Number | Words | str | None
"""None: there is no such figure."""


@dataclass(frozen=True)
class Table:
    name: str  # of the file it is downloaded as
    caption: str
    heads: tuple[str, ...]
    """Columns that say what a row is."""
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[TableCell, ...]], ...]
    """What the row is, and its cells."""
    note: str = ""
    is_shaped_by_test: bool | None = None  # None: as the section

    def __post_init__(self) -> None:
        for heads, cells in self.rows:
            if len(heads) != len(self.heads) or len(cells) != len(self.columns):
                raise ValueError(f"{self.name}: {heads} {cells} do not fit {self.heads} {self.columns}")

    @property
    def is_measured(self) -> bool:
        """Whether it has more than what is printed in the paper."""
        cells = [cell for _, of_row in self.rows for cell in of_row]
        return any(cell.record if isinstance(cell, Number) else cell for cell in cells)


@dataclass(frozen=True)
class Series:
    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lows: tuple[float, ...] = ()  # the band of error; empty: none
    highs: tuple[float, ...] = ()
    is_guide: bool = False  # what would be, to read the others by; nothing was measured for it


@dataclass(frozen=True)
class Plot:
    name: str
    caption: str
    x: str
    y: str
    series: tuple[Series, ...]
    logarithmic: bool = False  # the x axis
    logarithmic_y: bool = False
    from_zero: bool = False  # whether the y axis begins there
    ticks: tuple[str, ...] = ()  # in place of numbers, for the values 0, 1, … of x
    levels: tuple[tuple[str, float], ...] = ()  # name and height of lines across
    joined: bool = True  # by lines; if not, dots alone, as between the values of x there is nothing
    is_shaped_by_test: bool | None = None  # None: as the section


@dataclass(frozen=True)
class Section:
    """One experiment's part of the report."""

    name: str
    title: str
    words: tuple[str, ...]
    """Paragraphs: what was asked, what came of it."""
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    is_shaped_by_test: bool = False  # figures under `published` are among them: the warning must stand beside
    missing: tuple[str, ...] = field(default=())
    """Names of the records that it would show, but that are not there."""
