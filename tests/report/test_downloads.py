"""Tables as files: read back with readers of their own."""

from __future__ import annotations

import base64
import csv
import io
import re
from dataclasses import replace

import polars as pl
import pytest
import section_samples as samples

from pspns.experiments.sections import Detail, Number, Table, Words
from pspns.report.downloads import data_uri, plot_as_csv, table_as_csv, table_as_latex


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def one_row(*cells, heads=("x",), note="") -> Table:
    columns = tuple(f"c{number}" for number in range(len(cells)))
    return Table("t", "caption", tuple(f"h{number}" for number in range(len(heads))), columns, ((heads, cells),), note)


def body(latex: str) -> list[str]:
    return latex.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].split("\n")


def test_csv_has_every_figure_unrounded_with_all_that_is_known_of_it():
    first, psp, odd = read(table_as_csv(samples.ALL_KINDS))
    assert (first["method"], first["paper"], first["ours, published"]) == ("RNS", "26.68", "26.2049")
    assert first["ours, published, spread"] == "0.114"
    assert first["ours, published, record"] == samples.UNIFORM
    assert (first["ours, strict, note"], psp["ours, strict, note"]) == ("limit", "")
    assert (psp["against RNS, strict"], psp["against RNS, strict, low"]) == ("-3.509", "-3.81")
    assert psp["against RNS, strict, high"] == "-3.2"
    assert psp["p"] == "< 0.001"
    assert (odd["method"], odd["paper"]) == ("50 % of_{x} & <b>", "")
    assert first["seconds"] == "1234.5678", "a comma among the digits would be a column of its own"


def test_csv_has_columns_for_what_is_known_and_no_others():
    assert list(read(table_as_csv(one_row(Number(1.5), "word", None)))[0]) == ["h0", "c0", "c1", "c2"]


def test_other_readers_find_numbers_in_the_csv():
    frame = pl.read_csv(table_as_csv(samples.ALL_KINDS).encode())
    assert frame["ours, strict"].to_list() == [28.5123, 25.0031, 29.6]
    assert frame["against RNS, strict"].to_list() == [None, -3.509, 1.09]


def test_text_with_commas_quotes_and_line_ends_stays_one_cell():
    (row,) = read(table_as_csv(one_row('say "a, b"\nand c', heads=("x, `y`",))))
    assert (row["c0"], row["h0"]) == ('say "a, b"\nand c', "x, y")


def test_a_table_without_rows_has_its_heads():
    empty = Table("t", "caption", ("h",), ("a", "b"), ())
    assert table_as_csv(empty) == "h,a,b\n"
    assert "h & a & b" in table_as_latex(empty)


def test_the_warning_goes_with_every_row_of_a_file():
    for text in (table_as_csv(samples.ALL_KINDS, "beware"), plot_as_csv(samples.BANDS, "beware")):
        assert {row["warning"] for row in read(text)} == {"beware"}
    assert r"Figures under \texttt{published}: beware." in table_as_latex(samples.ALL_KINDS, "beware")
    assert "warning" not in table_as_csv(samples.ALL_KINDS)


def test_a_plot_has_a_row_for_each_point():
    rows = read(plot_as_csv(samples.BANDS))
    assert len(rows) == 4 + 3 + 2
    assert rows[1] == {
        "series": "RNS",
        "step": "20000",
        "Recall@20, validation, %": "18",
        "low": "17.5",
        "high": "18.5",
    }
    assert rows[4]["series"] == "PSP-NS, strict"
    assert rows[-2] == {"series": "ease", "step": "", "Recall@20, validation, %": "28.2", "low": "", "high": ""}
    assert [row["sampler"] for row in read(plot_as_csv(samples.DOTS))[:3]] == list(samples.DOTS.ticks)
    assert read(plot_as_csv(samples.LOGARITHMIC))[0]["low"] == ""


def test_latex_has_as_many_cells_in_every_row_as_columns():
    for table in (samples.ALL_KINDS, samples.GROUPED, samples.CLAIMS):
        text = table_as_latex(table)
        width = len(table.heads) + len(table.columns)
        layout = re.search(r"\\begin\{tabular\}\{(.*)\}\n", text)
        assert len(re.sub(r"p\{[^}]*\}", "p", layout[1])) == width
        rows = body(text)
        assert len(rows) == len(table.rows)
        assert all(row.endswith(r" \\") and len(re.findall(r"(?<!\\)&", row)) == width - 1 for row in rows)
        for command in ("toprule", "midrule", "bottomrule", "caption", "label"):
            assert text.count(f"\\{command}") == 1
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_a_long_latex_table_runs_over_pages_with_its_heads_on_each():
    rows = tuple(((f"method {number}",), (Number(number),)) for number in range(41))
    short, long = (Table("t", "caption", ("h",), ("c",), kept, "A note.") for kept in (rows[:40], rows))
    assert "longtable" not in table_as_latex(short)
    text = table_as_latex(long, "beware")
    assert text.startswith("% needs \\usepackage{booktabs,longtable}\n")
    assert text.count(r"h & c \\") == 2
    assert text.index(r"\endfirsthead") < text.index(r"\endhead") < text.index("method 0")
    assert "table}" not in text.replace("longtable}", "")
    assert text.count("{") == text.count("}")
    assert text.count(r"\caption") == text.count(r"\label") == text.count(r"\begingroup") == 1
    assert "A note. Figures under" in text


def test_a_latex_table_that_does_not_fit_is_made_to():
    found = table_as_latex(one_row(*map(Number, range(8)), heads=("x",), note="A note."))
    assert found.startswith("% needs \\usepackage{booktabs,graphicx}\n")
    # TeX itself knows how wide it is, and leaves one that fits as it is.
    assert "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n\\begin{tabular}{" in found
    assert "\\end{tabular}}\n\\par\\smallskip\n\\parbox{\\linewidth}{\\footnotesize A note.}\n" in found


def test_sentences_wrap_in_latex_wherever_they_stand():
    text = table_as_latex(
        one_row(Number(1), Words("holds: all of 40 comparisons", "better"), heads=("a claim " * 9, "b"))
    )
    assert re.search(r"\\begin\{tabular\}\{p\{0\.\d+\\linewidth\}lrp\{0\.\d+\\linewidth\}\}\n", text)
    assert "holds: all of 40 comparisons" in text


def test_words_with_a_tone_are_words_in_the_csv():
    assert read(table_as_csv(one_row(Words("**holds**: all 4", "better"))))[0] == {"h0": "x", "c0": "holds: all 4"}


def test_what_words_sum_up_has_a_column_of_its_own_in_the_csv():
    details = (Detail("a `one`", "worse", ("r", "s_1")), Detail("b", "better"), Detail("c"))
    (row,) = read(table_as_csv(one_row(Words("in part", details=details))))
    assert row == {"h0": "x", "c0": "in part", "c0, one by one": "- a one [r, s_1]\n+ b\nc"}


def test_latex_of_numbers():
    rows = body(table_as_latex(samples.ALL_KINDS))
    assert rows[0].startswith(
        r"RNS & $26.68$ & $26.20$ $\pm$ $0.11$ & $-1.8$ \% & $28.51$ $\pm$ $0.12$ limit & -- & --"
    )
    assert rows[0].endswith(r"$1{,}234.6$ \\")
    assert r"$-3.51$ ($-3.81$ to $-3.20$) & $<$ 0.001" in rows[1]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("50 % of_{x} & $y$", r"50 \% of\_\{x\} \& \$y\$"),
        ("a\\b ~ ^ #", r"a\textbackslash{}b \textasciitilde{} \textasciicircum{} \#"),
        ("1 < 2 > 0 | `a_b` × √ ≥ – …", r"1 $<$ 2 $>$ 0 $|$ \texttt{a\_b} $\times$ $\surd$ $\geq$ -- \ldots{}"),
        ("in 10⁻⁶, ‖λ₁‖² − Σ", r"in 10$^{-}$$^{6}$, $\|$$\lambda$$_{1}$$\|$$^{2}$ $-$ $\Sigma$"),
        ("*so* and **so**", r"\emph{so} and \textbf{so}"),
    ],
)
def test_latex_is_escaped(given, written):
    assert written in table_as_latex(one_row("x", heads=(given,)))
    assert rf"\caption{{{written}}}" in table_as_latex(replace(samples.CLAIMS, caption=given))


@pytest.mark.parametrize("given", ["[a]", "*b"])
def test_a_row_cannot_begin_with_what_latex_takes_for_an_option_of_the_row_before(given):
    assert body(table_as_latex(one_row("x", heads=(given,)))) == [rf"{{}}{given} & x \\"]


def test_long_notes_stand_below_the_latex_table_once():
    note = "A figure that cannot be right, as 50 % shows."
    text = table_as_latex(one_row(Number(1, note=note), Number(2, note=note), Number(3, note="limit"), Number(4)))
    assert body(text) == [r"x & $1.00$\textsuperscript{a} & $2.00$\textsuperscript{a} & $3.00$ limit & $4.00$ \\"]
    assert text.count("A figure that cannot be right, as 50 \\% shows.") == 1


def test_an_address_holds_the_text_itself():
    kind, _, content = data_uri("ä,b\n", "text/csv").partition(",")
    assert kind == "data:text/csv;charset=utf-8;base64"
    assert base64.b64decode(content).decode() == "ä,b\n"
