"""Pages in a real Chromium: drawn, silent, readable at every width and in both schemes, and without eyes or mouse."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from page import checks
from page.pages import Opened

from pspns.experiments.sections import Number
from pspns.report.downloads import file_name
from pspns.report.figures import figure

PHONE, DESK = 390, 1200
PAPER = 673
"""Width of A4 between its margins, in CSS pixels."""
SHRINKS = 1.25
"""So much wider a page may be: Chromium makes it smaller then, at most to half; at this it is easy to read."""

MOST_DOWNLOADS = 10
"""That Chromium allows a page without a window, whoever asks for them."""

WIDEST = "[...document.querySelectorAll('.scroll')].sort((a, b) => b.scrollWidth - a.scrollWidth)[0]"

each_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_nothing_scrolls_sideways_but_boxes_of_their_own(opened: Opened, width: int) -> None:
    assert checks.sideways(opened.page, width) == []


@each_scheme
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_plot_is_drawn(opened: Opened, scheme: str, width: int) -> None:
    opened.page.resize(width)
    opened.page.emulate(scheme)
    assert checks.plots(opened.page) == []


def test_texts_of_plots_can_be_read(opened: Opened) -> None:
    assert checks.formulas(opened.page) == []


@each_scheme
def test_a_shadow_says_that_a_table_goes_on_and_is_gone_at_its_end(opened: Opened, scheme: str) -> None:
    page = opened.page
    page.resize(PHONE)
    page.emulate(scheme)
    page.evaluate(f"{WIDEST}.scrollLeft = 0")
    assert checks.shade(page, WIDEST) > 20
    page.evaluate(f"{WIDEST}.scrollLeft = 1e6")
    assert checks.shade(page, WIDEST) < 3
    page.evaluate(f"{WIDEST}.scrollLeft = 0")


@each_scheme
def test_text_and_lines_stand_out_from_their_ground(opened: Opened, scheme: str) -> None:
    opened.page.emulate(scheme)
    assert checks.contrasts(opened.page) == []


def test_the_schemes_differ(opened: Opened) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        opened.page.emulate(scheme)
        grounds.add(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_those_who_listen_are_told_what_is_there(opened: Opened) -> None:
    assert checks.names(opened.page) == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_keyboard_reaches_everything(opened: Opened, width: int) -> None:
    opened.page.resize(width)
    assert checks.keyboard(opened.page) == []


def test_a_box_scrolls_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.resize(PHONE)
    assert page.evaluate(f"{WIDEST}.scrollWidth > {WIDEST}.clientWidth")
    page.evaluate(f"{WIDEST}.scrollIntoView(); {WIDEST}.focus()")
    page.press("ArrowRight")
    assert page.evaluate(f"new Promise(done => setTimeout(() => done({WIDEST}.scrollLeft), 500))"), (
        "what is cut off can be reached"
    )


def test_the_first_stop_skips_to_the_content(opened: Opened) -> None:
    if not opened.made.sections:
        pytest.skip("a run's report begins with its content")
    page = opened.page
    first = checks.stops(page)[0]
    assert (first["text"], first["href"]) == ("Skip to the content", "#content")
    page.evaluate("document.querySelector('.skip').focus()")
    page.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_figures_lead_to_their_records_by_keyboard(opened: Opened) -> None:
    if not opened.made.sections:
        pytest.skip("a run's report is its own record")
    page = opened.page
    page.evaluate("document.querySelector('td a').focus()")
    page.press("Enter")
    aim = page.evaluate("document.querySelector('td a').getAttribute('href').slice(1)")
    assert page.evaluate("document.activeElement.id") == aim
    assert page.evaluate(
        "(({top, bottom}) => top >= 0 && bottom <= innerHeight)(document.activeElement.getBoundingClientRect())"
    )


def test_downloads_have_the_figures_of_the_page(opened: Opened, tmp_path: Path) -> None:
    page, browser = opened.page, opened.page.browser
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    tables = [table for section in opened.made.sections for table in section.tables]
    tables = [table for table in tables if table.is_measured]
    n_plots = page.evaluate("document.querySelectorAll('figure').length") if tables else 0
    assert page.evaluate("document.querySelectorAll('a[download]').length") == 2 * len(tables) + n_plots
    taken = tables[: MOST_DOWNLOADS // 2]
    for file in (f"{file_name(table.name)}.{kind}" for table in taken for kind in ("csv", "tex")):
        page.evaluate(f"document.querySelector('a[download=\"{file}\"]').click()")
        browser.wait_for("Browser.downloadProgress", state="completed")
    assert len(list(tmp_path.iterdir())) == 2 * len(taken)
    for table in taken:
        shown = page.evaluate(
            f"[...document.getElementById('table-{file_name(table.name)}').querySelectorAll('tbody tr')]"
            ".map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText)).filter(row => row.length)"
        )
        with (tmp_path / f"{file_name(table.name)}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(shown) == len(table.rows)
        n_compared = 0
        for row, texts, (_, cells) in zip(rows, shown, table.rows, strict=True):
            for column, text, cell in zip(table.columns, texts, cells, strict=True):
                if isinstance(cell, Number):
                    found = Number(float(row[column]), digits=cell.digits, sign=cell.sign)
                    assert text.split()[0].rstrip("%abc,") == figure(found)
                    n_compared += 1
        assert n_compared or not any(isinstance(cell, Number) for _, cells in table.rows for cell in cells)
        assert r"\bottomrule" in (tmp_path / f"{file_name(table.name)}.tex").read_text(encoding="utf-8")


def test_on_paper_it_is_black_on_white_and_nothing_is_cut_off(opened: Opened) -> None:
    page = opened.page
    page.resize(PAPER)
    page.emulate("dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.scrollingElement.scrollWidth") <= SHRINKS * PAPER
    assert checks.contrasts(page) == []
    written = page.pdf()
    assert written.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", written)) >= 2


def test_on_paper_short_words_stay_on_one_line_and_long_lists_stay_folded(opened: Opened) -> None:
    page = opened.page
    page.resize(PAPER)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = false)")
    page.emulate(media="print")
    broken = page.evaluate(
        "[...document.querySelectorAll('td.short')].filter(cell => getComputedStyle(cell).whiteSpace !== 'nowrap')"
        ".map(cell => cell.textContent)"
    )
    assert broken == []
    folds = page.evaluate(
        "[...document.querySelectorAll('details')]"
        ".map(one => [one.matches('.missing, .each'), one.lastElementChild.checkVisibility()])"
    )
    assert all(is_shown != is_list for is_list, is_shown in folds)


def test_it_says_nothing_to_the_console_and_asks_for_nothing(opened: Opened) -> None:
    """Comes last: whatever the tests before did is told here."""
    assert checks.noises(opened.page) == []
