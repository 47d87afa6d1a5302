"""The checks find what is wrong: a page with one fault of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from page import checks
from page.chromium import Chromium, NoChromium, Page, find_chromium

BAD = """<!DOCTYPE html><title></title>
<h1>Bad</h1><h3>Too deep</h3>
<p style="color: #999; background: #fff">Pale words</p>
<div class="scroll" tabindex="-1" style="width: 2000px"><table><tr><td>wide</td></tr></table></div>
<a href="#" style="outline: none">No outline</a>
<figure><svg role="img" viewBox="0 0 400 200" width="400">
<path clip-path="none" style="stroke: var(--series-0, #0072b2); fill: none" d="M 900 0 L 950 5"/>
</svg></figure>
<figure><svg role="img" aria-label="covered" viewBox="0 0 400 200" width="400">
<path clip-path="none" style="stroke: var(--series-0, #eeeeee); fill: none" d="M 10 10 L 90 90"/>
<rect width="400" height="200" fill="#000"/><text fill="#fff">$10^3$</text></svg></figure>
<script>console.log("noise"); new Image().src = "http://192.0.2.1/pixel.png"; missing()</script>
"""


@pytest.fixture(scope="module")
def bad(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("bad") / "page.html"
    path.write_text(BAD, encoding="utf-8")
    return browser.open(path)


@pytest.mark.parametrize("width", [390, 1200])
def test_sideways_scrolling_is_found(bad: Page, width: int) -> None:
    (fault,) = checks.sideways(bad, width)
    assert f"px wide at {width} px" in fault


def test_plots_that_show_nothing_are_found(bad: Page) -> None:
    bad.resize(1200)
    outside, covered = checks.plots(bad)
    assert "'outside': 1" in outside
    assert "covered: only 0 pixels" in covered


def test_pale_text_and_pale_lines_are_found(bad: Page) -> None:
    faults = checks.contrasts(bad)
    assert "2.85: Pale words" in faults
    assert any("a line of rgb(238, 238, 238)" in fault for fault in faults)


def test_formulas_in_plots_are_found(bad: Page) -> None:
    assert checks.formulas(bad) == ["$10^3$"]


def test_what_has_no_name_is_found(bad: Page) -> None:
    faults = checks.names(bad)
    assert {"a image has no name", "there is no main", "headings go [1, 3]"} <= set(faults)
    assert "the page has no language or no title" in faults


def test_what_the_keyboard_does_not_reach_or_show_is_found(bad: Page) -> None:
    faults = checks.keyboard(bad)
    assert "boxes: 1 are there, 0 are reached" in faults
    assert any("No outline" in fault for fault in faults)


def test_noise_and_requests_are_found(bad: Page) -> None:
    faults = " ".join(checks.noises(bad))
    assert "noise" in faults
    assert "missing is not defined" in faults
    assert "asked for http://192.0.2.1/pixel.png" in faults


def test_a_browser_that_is_not_there_or_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    with pytest.raises(NoChromium, match="no-such-browser is no program; install Chromium"):
        find_chromium()
    monkeypatch.setenv("CHROMIUM", "false")
    with pytest.raises(NoChromium, match="Chromium ended with code 1"):
        Chromium(tmp_path)
