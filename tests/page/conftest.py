"""A browser for all tests of pages, and the pages, each opened once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page.chromium import Chromium, NoChromium
from page.pages import PAGES, Opened


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    try:
        started = Chromium(tmp_path_factory.mktemp("chromium"))
    except NoChromium as why:
        pytest.skip(f"no Chromium: {why}")
    yield started
    started.close()


@pytest.fixture(scope="session", params=PAGES)
def whole(
    request: pytest.FixtureRequest, browser: Chromium, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("pages")
    made = PAGES[request.param](folder)
    page = browser.open(made.path)
    yield Opened(page, made)
    page.close()


@pytest.fixture
def opened(whole: Opened) -> Opened:
    """At its top, light, as wide as a desk has it."""
    whole.page.resize(1200)
    whole.page.emulate("light")
    whole.page.evaluate("window.scrollTo(0, 0)")
    return whole
