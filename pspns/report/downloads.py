"""Tables and plots as files that a page carries inside: CSV for machines, LaTeX for papers."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.sections import Number, Plot, Table, TableCell
from pspns.report.figures import figure, interval, lettered, spread
from pspns.report.marks import as_latex, plain

LONG = 24
"""Letters of a text beyond which its column holds sentences."""

# Of a number: what stands in columns of its own, where any number of the column has it.
_BESIDE: dict[str, Callable[[Number], float | str | None]] = {
    "spread": lambda number: number.spread,
    "low": lambda number: number.low,
    "high": lambda number: number.high,
    "note": lambda number: plain(number.note),
    "record": lambda number: number.record,
}


def table_as_csv(table: Table, warning: str = "") -> str:
    """A column for each of the table's with its figures as they are, and beside it what else is known of them."""
    columns = list(zip(*(cells for _, cells in table.rows), strict=True)) or [()] * len(table.columns)
    titles = [plain(head) for head in table.heads]
    values: list[list[object]] = [[plain(text) for text in heads] for heads, _ in table.rows]
    for title, cells in zip(table.columns, columns, strict=True):
        titles.append(plain(title))
        for row, cell in zip(values, cells, strict=True):
            row.append(_bare(cell))
        for name, look in _BESIDE.items():
            found = [look(cell) if isinstance(cell, Number) else None for cell in cells]
            if any(value not in (None, "") for value in found):
                titles.append(f"{plain(title)}, {name}")
                for row, value in zip(values, found, strict=True):
                    row.append(_exact(value))
    if warning:
        titles.append("warning")
        for row in values:
            row.append(warning)
    return _csv([titles, *values])


def plot_as_csv(plot: Plot, warning: str = "") -> str:
    """A row for each point."""
    rows: list[list[object]] = [["series", plain(plot.x), plain(plot.y), "low", "high"]]
    for series in plot.series:
        lows, highs = (band or (None,) * len(series.xs) for band in (series.lows, series.highs))
        for x, y, low, high in zip(series.xs, series.ys, lows, highs, strict=True):
            where = plain(plot.ticks[round(x)]) if plot.ticks else _exact(x)
            rows.append([plain(series.label), where, _exact(y), _exact(low), _exact(high)])
    for name, level in plot.levels:
        rows.append([plain(name), "", _exact(level), "", ""])
    if warning:
        rows = [[*row, warning if number else "warning"] for number, row in enumerate(rows)]
    return _csv(rows)


def table_as_latex(table: Table, warning: str = "") -> str:
    """A floating table with the rules of the package booktabs, its note below."""
    wordy = [holds_sentences(cells) for cells in zip(*(cells for _, cells in table.rows), strict=True)]
    wordy = wordy or [False] * len(table.columns)
    width = f"p{{{0.6 / max(1, sum(wordy)):.2f}\\linewidth}}"
    layout = "l" * len(table.heads) + "".join(width if words else "r" for words in wordy)
    footnotes = lettered(table)
    rows = [
        [*(as_latex(text) for text in heads), *(_latex_cell(cell, footnotes) for cell in cells)]
        for heads, cells in table.rows
    ]
    note = " ".join(
        [
            *filter(
                None,
                [as_latex(table.note), as_latex(f"Figures under `{PUBLISHED.name}`: {warning}.") if warning else ""],
            ),
            *(f"{_raised(letter)} {as_latex(words)}" for words, letter in footnotes.items()),
        ]
    )
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{as_latex(table.caption)}}}",
        rf"\label{{tab:{file_name(table.name)}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        _latex_row([as_latex(title) for title in (*table.heads, *table.columns)]),
        r"\midrule",
        *map(_latex_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize {note}}}"] if note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def data_uri(text: str, kind: str) -> str:
    """The text as an address that needs no network; `kind` is its media type."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def holds_sentences(cells: Sequence[TableCell]) -> bool:
    return any(isinstance(cell, str) and len(plain(cell)) > LONG for cell in cells)


def file_name(name: str) -> str:
    """What every system and every anchor takes.

    >>> file_name("overall-my data/set.csv")
    'overall-my-data-set.csv'
    """
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "unnamed"


def _bare(cell: TableCell) -> str:
    return _exact(cell.value) if isinstance(cell, Number) else plain(cell or "")


def _exact(value: float | str | None) -> str:
    """Digits enough to see every difference that is more than rounding of the machine's.

    >>> _exact(0.1 + 0.2), _exact(None), _exact(12.0)
    ('0.3', '', '12')
    """
    return "" if value is None else value if isinstance(value, str) else f"{value:.12g}"


def _csv(rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _latex_cell(cell: TableCell, footnotes: Mapping[str, str]) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, str):
        return as_latex(cell)
    text = f"{_math(figure(cell))}{as_latex(cell.unit)}"
    if cell.spread is not None:
        text += rf" $\pm$ {_math(spread(cell))}"
    if cell.low is not None and cell.high is not None:
        text += " ({} to {})".format(*map(_math, interval(cell)))
    if cell.note in footnotes:
        return text + _raised(footnotes[cell.note])
    return f"{text} {as_latex(cell.note)}".rstrip()


def _raised(letter: str) -> str:
    return rf"\textsuperscript{{{letter}}}"


def _math(text: str) -> str:
    """A number whose sign and commas are set as such."""
    return f"${text.replace('−', '-').replace(',', '{,}')}$"


def _latex_row(cells: Sequence[str]) -> str:
    # After the end of a row, TeX takes a bracket or a star for an option of it.
    first = f"{{}}{cells[0]}" if cells[0].startswith(("[", "*")) else cells[0]
    return " & ".join([first, *cells[1:]]) + r" \\"
