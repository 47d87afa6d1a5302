"""Tables and plots as files that a page carries inside: CSV for machines, LaTeX for papers."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.sections import Number, Plot, Table, TableCell, Tone, Words
from pspns.report.figures import figure, interval, lettered, spread
from pspns.report.marks import as_latex, plain

LONG = 24
"""Letters of a text beyond which its column holds sentences."""
MANY_ROWS, MANY_COLUMNS = 40, 8
"""Beyond which a table of LaTeX runs over pages, and beyond which such a one has smaller letters."""


Look = Callable[[TableCell], float | str | None]


def _of_number(look: Callable[[Number], float | str | None]) -> Look:
    return lambda cell: look(cell) if isinstance(cell, Number) else None


def _one_by_one(cell: TableCell) -> str | None:
    """A line for each thing that a cell sums up, and which records it was read from."""
    if not isinstance(cell, Words):
        return None
    signs: dict[Tone, str] = {"better": "+ ", "worse": "- "}
    lines = []
    for one in cell.details:
        records = f" [{', '.join(one.records)}]" if one.records else ""
        lines.append(f"{signs.get(one.tone, '')}{plain(one.text)}{records}")
    return "\n".join(lines)


# What stands in columns of its own, where any cell of the column has it.
_BESIDE: dict[str, Look] = {
    "spread": _of_number(lambda number: number.spread),
    "low": _of_number(lambda number: number.low),
    "high": _of_number(lambda number: number.high),
    "note": _of_number(lambda number: plain(number.note)),
    "record": _of_number(lambda number: number.record),
    "one by one": _one_by_one,
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
            found = [look(cell) for cell in cells]
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
    """A floating table with the rules of the package booktabs, its note below; a long one runs on from page to page."""
    footnotes = lettered(table)
    rows = [
        [*(as_latex(text) for text in heads), *(_latex_cell(cell, footnotes) for cell in cells)]
        for heads, cells in table.rows
    ]
    titles = _latex_row([as_latex(title) for title in (*table.heads, *table.columns)])
    body = [*map(_latex_row, rows), r"\bottomrule"]
    note = _latex_note(table, warning, footnotes)
    lines = _running(table, titles, body, note) if len(rows) > MANY_ROWS else _floating(table, titles, body, note)
    return "\n".join(lines) + "\n"


def _floating(table: Table, titles: str, body: Sequence[str], note: str) -> list[str]:
    return [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        r"\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{as_latex(table.caption)}}}",
        rf"\label{{tab:{file_name(table.name)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",  # made to fit if it does not
        rf"\begin{{tabular}}{{{_layout(table)}}}",
        r"\toprule",
        titles,
        r"\midrule",
        *body,
        r"\end{tabular}}",
        *([r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize {note}}}"] if note else []),
        r"\end{table}",
    ]


def _running(table: Table, titles: str, body: Sequence[str], note: str) -> list[str]:
    # What runs over pages cannot be scaled: a wide one has smaller letters.
    size = r"\tiny\setlength{\tabcolsep}{2pt}" if _is_wide(table) else r"\small\setlength{\tabcolsep}{4pt}"
    heading = [r"\toprule", titles, r"\midrule"]
    return [
        r"% needs \usepackage{booktabs,longtable}",
        rf"\begingroup{size}",
        rf"\begin{{longtable}}{{{_layout(table)}}}",
        rf"\caption{{{as_latex(table.caption)}}}\label{{tab:{file_name(table.name)}}}\\",
        *heading,
        r"\endfirsthead",
        *heading,
        r"\endhead",
        *body,
        r"\end{longtable}",
        *([rf"\noindent\parbox{{\linewidth}}{{\footnotesize {note}}}"] if note else []),
        r"\par\endgroup",
    ]


def _is_wide(table: Table) -> bool:
    return len(table.heads) + len(table.columns) > MANY_COLUMNS


def _layout(table: Table) -> str:
    """Sentences wrap, in what width the others leave; of the rest, names stand to the left and figures to the right."""
    heads = zip(*(heads for heads, _ in table.rows), strict=True)
    columns = zip(*(cells for _, cells in table.rows), strict=True)
    wordy = [holds_sentences(cells) for cells in (*heads, *columns)]
    wordy = wordy or [False] * (len(table.heads) + len(table.columns))
    room = max(0.5, 1 - 0.03 * len(wordy) - 0.07 * wordy.count(False))  # of each the gaps beside it, and its figures
    width = f"p{{{room / max(1, sum(wordy)):.2f}\\linewidth}}"
    sides = "l" * len(table.heads) + "r" * len(table.columns)
    return "".join(width if words else side for words, side in zip(wordy, sides, strict=True))


def _latex_note(table: Table, warning: str, footnotes: Mapping[str, str]) -> str:
    said = [table.note, f"Figures under `{PUBLISHED.name}`: {warning}." if warning else ""]
    lines = [as_latex(words) for words in said if words]
    return " ".join([*lines, *(f"{_raised(letter)} {as_latex(words)}" for words, letter in footnotes.items())])


def data_uri(text: str, kind: str) -> str:
    """The text as an address that needs no network; `kind` is its media type."""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def holds_sentences(cells: Sequence[TableCell]) -> bool:
    return any(isinstance(cell, str | Words) and len(plain(str(cell))) > LONG for cell in cells)


def file_name(name: str) -> str:
    """What every system and every anchor takes.

    >>> file_name("overall-my data/set.csv")
    'overall-my-data-set.csv'
    """
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "unnamed"


def _bare(cell: TableCell) -> str:
    return _exact(cell.value) if isinstance(cell, Number) else plain(str(cell or ""))


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
    if not isinstance(cell, Number):
        return as_latex(str(cell))
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
