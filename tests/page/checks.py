"""What must hold of every page: each check gives the faults it found, in words."""

from __future__ import annotations

import itertools
from io import BytesIO
from typing import Any

import numpy as np
from page.chromium import Page
from PIL import Image

LEAST_CONTRAST, LEAST_CONTRAST_OF_LINES = 4.5, 3.0
"""Of text and of lines against their ground, as WCAG 2 (level AA) asks."""

_COLOURS = """
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [R, G, B] = [r, g, b].map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * R + .7152 * G + .0722 * B;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = numbers(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
"""
_SERIES = """
  const series = svg => [...svg.querySelectorAll("path[clip-path], [clip-path] use")]
    .filter(e => (e.getAttribute("style") || "").includes("--series-"))
    .filter(e => !(e.getAttribute("style") || "").includes("fill-opacity"));
  const colour = e => getComputedStyle(e).stroke;
"""


def sideways(page: Page, width: int) -> list[str]:
    """At this width, with everything unfolded."""
    page.resize(width)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = page.evaluate("document.scrollingElement.scrollWidth")
    page.evaluate("window.scrollTo(500, 0)")
    moved = page.evaluate("window.scrollX")
    page.evaluate("window.scrollTo(0, 0)")
    return [f"{found} px wide at {width} px, moved by {moved} px"] if found > width or moved else []


def plots(page: Page) -> list[str]:
    """Each plot has a size, and each of its series lies inside and can be seen."""
    found = page.evaluate(
        "(() => {"
        + _SERIES
        + """
        return [...document.querySelectorAll("figure svg")].map(svg => {
          const box = svg.getBoundingClientRect();
          const drawn = series(svg).map(e => [e.getBoundingClientRect(), colour(e)]);
          const is_inside = r => r.left >= box.left - 2 && r.right <= box.right + 2
            && r.top >= box.top - 2 && r.bottom <= box.bottom + 2;
          return {
            name: svg.id || svg.parentElement.id || svg.getAttribute("aria-label"),
            box: [box.left + scrollX, box.top + scrollY, box.width, box.height],
            colours: [...new Set(drawn.map(([r, c]) => c))],
            empty: drawn.filter(([r, c]) => !(r.width + r.height > 0)).length,
            outside: drawn.filter(([r, c]) => !is_inside(r)).length,
          };
        });
        })()"""
    )
    faults = [] if found else ["there is no plot"]
    for plot in found:
        *_, width, height = plot["box"]
        if width < 200 or height < 100 or not plot["colours"] or plot["empty"] or plot["outside"]:
            faults.append(f"{plot['name']}: {plot}")
            continue
        pixels = _pixels(page, plot["box"])
        for colour in plot["colours"]:
            wanted = np.array([float(part) for part in colour.strip("rgba()").split(",")[:3]])
            seen = int((np.abs(pixels - wanted).max(axis=2) < 24).sum())
            if seen < 20:
                faults.append(f"{plot['name']}: only {seen} pixels are {colour}")
    return faults


def _pixels(page: Page, box: list[float]) -> np.ndarray:
    clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
    picture = Image.open(BytesIO(page.picture(clip=clip))).convert("RGB")
    return np.asarray(picture, dtype=float)


def formulas(page: Page) -> list[str]:
    """Texts of plots in marks that only what drew them can read."""
    texts: list[str] = page.evaluate("[...document.querySelectorAll('svg text')].map(text => text.textContent)")
    return [text for text in texts if "$" in text]


def shade(page: Page, selector: str) -> float:
    """How far, of 255, the right edge of a box is from the ground, at most, in the strip above what it holds."""
    left, top, width = page.evaluate(
        f"(({{left, top, width}}) => [left + scrollX, top + scrollY, width])({selector}.getBoundingClientRect())"
    )
    strip = _pixels(page, [left + width - 4, top, 4, 3])
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)")
    return float(np.abs(strip - np.array(ground[:3])).max())


def contrasts(page: Page) -> list[str]:
    """Of every text, in plots too, and of the lines of plots, against what lies behind."""
    found: list[str] = page.evaluate(
        "(() => {"
        + _COLOURS
        + _SERIES
        + f"""
        document.querySelectorAll("details").forEach(one => one.open = true);
        const faults = [];
        for (const e of document.body.querySelectorAll("*")) {{
          const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join("").trim();
          if (!text || e.tagName === "STYLE") continue;
          const style = getComputedStyle(e);
          const ink = numbers(e.closest("svg") ? style.fill : style.color);
          const found = contrast(ink, ground(e));
          if (found < {LEAST_CONTRAST}) faults.push(`${{found.toFixed(2)}}: ${{text.slice(0, 40)}}`);
        }}
        for (const svg of document.querySelectorAll("figure svg"))
          for (const c of new Set(series(svg).map(colour))) {{
            const found = contrast(numbers(c), ground(svg.parentElement));
            if (found < {LEAST_CONTRAST_OF_LINES}) faults.push(`${{found.toFixed(2)}}: a line of ${{c}}`);
          }}
        return faults;
        }})()"""
    )
    return found


def noises(page: Page) -> list[str]:
    """What the page said to the console, and what it asked for beside itself."""
    faults = [
        str(event) for event in page.events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    ]
    requests = [event["request"]["url"] for event in page.events("Network.requestWillBeSent")]
    own = page.evaluate("location.href.split('#')[0]")
    return faults + [f"asked for {url}" for url in requests if url.split("#")[0] != own]


def names(page: Page) -> list[str]:
    """What a screen reader is given: every plot, table, box and link has a name; headings descend step by step."""
    nodes = page.accessible()
    faults = [
        f"a {node['role']} has no name"
        for node in nodes
        if node["role"] in ("image", "table", "region", "link", "navigation", "heading") and not node["name"].strip()
    ]
    for selector, role in (("figure svg", "image"), ("table", "table"), (".scroll", "region")):
        there, told = page.evaluate(f"document.querySelectorAll('{selector}').length"), _count(nodes, role)
        if told < there:
            faults.append(f"of {there} {selector} only {told} are told as {role}")
    for role in ("main", "columnheader", "rowheader"):
        if not _count(nodes, role):
            faults.append(f"there is no {role}")
    levels = [node["properties"]["level"] for node in nodes if node["role"] == "heading"]
    if levels[:1] != [1] or any(after > before + 1 for before, after in itertools.pairwise(levels)):
        faults.append(f"headings go {levels}")
    if not page.evaluate("document.documentElement.lang && document.title"):
        faults.append("the page has no language or no title")
    return faults


def _count(nodes: list[dict[str, Any]], role: str) -> int:
    return sum(node["role"] == role for node in nodes)


def stops(page: Page) -> list[dict[str, Any]]:
    """What the Tab key reaches from the top of the page, in that order."""
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0); document.querySelector('h1').tabIndex = -1")
    n_most = page.evaluate("document.querySelectorAll('a, summary, [tabindex]').length") + 5
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    found = []
    for _ in range(n_most):
        page.press("Tab")
        stop = page.evaluate(
            """(() => {
            const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
            return e === document.body ? null : {
              tag: e.tagName, text: e.textContent.trim().slice(0, 40), is_box: e.classList.contains("scroll"),
              href: e.getAttribute("href") || "", name: e.getAttribute("aria-labelledby") || "",
              is_marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
              is_seen: box.width > 4 && box.height > 4 && box.bottom > 0 && box.top < innerHeight,
            };
            })()"""
        )
        if stop is None:
            break
        found.append(stop)
    return found


def keyboard(page: Page) -> list[str]:
    """Every link and every box that scrolls is reached, can be seen, and shows that it is."""
    found = stops(page)
    boxes, links = (
        page.evaluate(f"document.querySelectorAll('{selector}').length") for selector in (".scroll", "a[href]")
    )
    faults = [
        f"{name}: {there} are there, {reached} are reached"
        for name, there, reached in (
            ("boxes", boxes, sum(stop["is_box"] for stop in found)),
            ("links", links, sum(stop["tag"] == "A" for stop in found)),
        )
        if there != reached
    ]
    return faults + [f"cannot be seen: {stop}" for stop in found if not stop["is_marked"] or not stop["is_seen"]]
