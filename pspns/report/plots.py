"""The plots of the page, as SVG that takes its ink, font and series colours from the page around it."""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, StrMethodFormatter

from pspns.experiments.sections import Plot, Series
from pspns.report.comparison import Difference
from pspns.report.marks import plain

# Colours of Okabe and Ito (2008), which the colour-blind can tell apart, and a violet and a brown; style.css tunes them
# to light and dark ground. A series also has a dash and a marker of its own, so that no one needs the colour.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a35a8", "#4d3019")
DASHES: tuple[Any, ...] = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
MARKERS = "os^DvPX"
KNOWN = ("RNS", "PSP-NS", "recommended", "DNS", "MixGCF", "AHNS", "DNS(M,N)", "W-ew")
"""What looks the same in all plots, as the first of the looks, the second, …"""
VARIANTS = {", strict": -1, ", published": 1}
"""Ends of labels of what has the colour and the marker of the name before, but another dash: the next or the last."""

# Matplotlib knows no currentColor: these stand in for it, and are replaced in what it wrote.
_INK, _FAINT, _GROUND = "#010203", "#030201", "#fdfefd"
_CSS = {_INK: "currentColor", _FAINT: "var(--faint, #8a939c)", _GROUND: "var(--ground, #ffffff)"} | {
    colour: f"var(--series-{number}, {colour})" for number, colour in enumerate(COLOURS)
}

_GUIDE = (_INK, (0, (4, 3)), "")
"""The look of a line that nothing was measured for."""

_WIDTH = 400  # points: on a phone a point is then 0.9 pixels, and text stays readable
_FONT = 11
_SLANT = 40  # degrees, of names that would overlap
_HIGH = 30
"""Letters of a y label beyond which it wraps: the axes are no higher."""
_FEW, _MOST_TICKS = 8, 10
"""Values up to which each has a tick of its own: on a logarithmic axis, and where they are evenly spaced."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and follows the page's font
    "text.parse_math": False,  # a name with two $ signs is no formula
    "font.size": _FONT,
    "axes.labelsize": _FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.linewidth": 0.5,
    "grid.alpha": 0.35,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": _FAINT,
    "grid.color": _FAINT,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
}


Look = tuple[str, Any, str]
"""Colour, dash and marker."""


@dataclass(frozen=True)
class Curve:
    """One seed of a run while it was trained."""

    steps: list[int]
    values: list[float]  # of the metric that selects, as a share
    best_step: int


@dataclass(frozen=True)
class KeptLine:
    """What a denoiser left to a group of pairs, for one seed."""

    steps: list[int]
    weights: list[float]  # mean over the pairs, since the look before; 1 is plain training


def plot_differences(plot_id: str, differences: Sequence[Difference], reference: str, metric: str) -> str:
    """A dot and a 95 % interval for each model, against the reference at zero."""
    with _style(plot_id):
        figure, axes = _figure(40 + 26 * (len(differences) + 1))
        axes.axvline(0, color=_INK, linewidth=0.9)
        for place, found in enumerate(differences, start=1):
            low, mean, high = (100 * value for value in (found.low, found.mean, found.high))
            axes.plot([low, high], [place, place], color=COLOURS[0], linewidth=2, solid_capstyle="round")
            filling = COLOURS[0] if found.p_value < 0.05 else _GROUND
            axes.plot(mean, place, "o", color=COLOURS[0], markersize=7, markerfacecolor=filling, markeredgewidth=1.5)
        axes.plot(0, 0, "D", color=_INK, markersize=6)
        axes.set_yticks(
            range(len(differences) + 1),
            [_shortened(label, 30) for label in (reference, *(found.label for found in differences))],
        )
        axes.set_ylim(len(differences) + 0.6, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.grid(axis="x")
        axes.set_xlabel(f"{metric}: points against {_shortened(reference, 30)}")
        said = "; ".join(
            f"{d.label} {100 * d.mean:+.2f} ({100 * d.low:+.2f} to {100 * d.high:+.2f})" for d in differences
        )
        return _svg(figure, plot_id, f"Difference to {reference} in {metric}, in points, with 95 % intervals: {said}")


def plot_curves(
    plot_id: str, runs: Mapping[str, Sequence[Curve]], levels: Mapping[str, float], metric: str, part: str
) -> str:
    """A thin line for each seed with its best step marked, and a dashed level for each baseline."""
    with _style(plot_id):
        figure, axes = _figure(230 + 15 * len(runs))
        for curves, (colour, dash, marker) in zip(runs.values(), _looks(runs), strict=True):
            for curve in curves:
                axes.plot(curve.steps, _percent(curve.values), color=colour, linestyle=dash, linewidth=1.1)
                if curve.best_step in curve.steps:
                    best = 100 * curve.values[curve.steps.index(curve.best_step)]
                    axes.plot(curve.best_step, best, marker, color=colour, markersize=6)
        _draw_levels(axes, {name: 100 * level for name, level in levels.items()})
        axes.set_ylabel(f"{metric}, {part}, %")
        _count_steps(axes)
        _legend(figure, runs, _looks(runs))
        best_of_runs = [
            f"{label} at most {max(100 * max(curve.values) for curve in curves):.2f} %"
            for label, curves in runs.items()
        ]
        said = "; ".join(best_of_runs + [f"{name} {100 * level:.2f} %" for name, level in levels.items()])
        return _svg(figure, plot_id, f"{metric} on the {part} part against training steps: {said}")


def plot_kept(plot_id: str, kept: Mapping[str, Sequence[KeptLine]]) -> str:
    """For each group of pairs a line, the mean over seeds, and a band from the lowest seed to the highest."""
    with _style(plot_id):
        figure, axes = _figure(230 + 15 * len(kept))
        means: dict[str, list[float]] = {}
        for (label, seeds), (colour, dash, marker) in zip(kept.items(), _looks(kept), strict=True):
            found: dict[int, list[float]] = {}  # a seed that has stopped is in the mean no more
            for line in seeds:
                for step, weight in zip(line.steps, line.weights, strict=True):
                    found.setdefault(step, []).append(weight)
            steps = sorted(found)
            means[label] = [sum(found[step]) / len(found[step]) for step in steps]
            if len(seeds) > 1:
                lowest, highest = ([extreme(found[step]) for step in steps] for extreme in (min, max))
                axes.fill_between(steps, lowest, highest, color=colour, alpha=0.2, linewidth=0)
            marks = {"marker": marker, "markersize": 4, "markevery": max(1, len(steps) // 10)}
            axes.plot(steps, means[label], color=colour, linestyle=dash, linewidth=1.3, **marks)
        axes.axhline(1, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.6)
        axes.set_ylabel("weight kept")
        axes.set_ylim(bottom=0)
        _count_steps(axes)
        _legend(figure, kept, _looks(kept))
        said = "; ".join(f"{label} from {values[0]:.2f} to {values[-1]:.2f}" for label, values in means.items())
        return _svg(figure, plot_id, f"Mean weight that pairs kept, against training steps: {said}")


def plot_activity(
    plot_id: str, runs: Mapping[str, Sequence[float | None]], train_pairs: Sequence[float], metric: str
) -> str:
    """A dot for each tenth of the users by activity; None where a tenth has no user to judge."""
    tenths = list(range(1, len(train_pairs) + 1))
    with _style(plot_id):
        figure, axes = _figure(225 + 15 * len(runs))
        for values, (colour, dash, marker) in zip(runs.values(), _looks(runs), strict=True):
            heights = [float("nan") if value is None else 100 * value for value in values]
            axes.plot(tenths, heights, color=colour, linestyle=dash, linewidth=1.1, marker=marker, markersize=5.5)
        axes.set_xticks(
            tenths, [f"{tenth}\n{_rounded(pairs)}" for tenth, pairs in zip(tenths, train_pairs, strict=True)]
        )
        axes.set_xlabel("tenth of the users by activity (below: mean train pairs)")
        axes.set_ylabel(f"{metric}, test, %")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        _legend(figure, runs, _looks(runs))
        said = "; ".join(f"{label} {_first_to_last(values)}" for label, values in runs.items())
        return _svg(figure, plot_id, f"{metric} on the test by tenth of the users, least active first: {said}")


def plot_series(plot_id: str, plot: Plot) -> str:
    """A line for each series with its band of error; dots with bars where nothing lies between the values of x."""
    with _style(plot_id):
        labels = [plain(series.label) for series in plot.series]
        in_pairs = len(labels) > 3 and max(map(len, labels)) <= 20
        looks = _looks_of(plot.series)
        ticks = [_shortened(plain(tick), 24) for tick in plot.ticks]
        below = math.ceil(len(labels) / (2 if in_pairs else 1))
        figure, axes = _figure(225 + 15 * below + _room_below(ticks))
        for place, (series, look) in enumerate(zip(plot.series, looks, strict=True)):
            # Between names there is room: dots that would lie on each other stand side by side.
            step_aside = 0.6 * ((place + 0.5) / len(plot.series) - 0.5) if plot.ticks and not plot.joined else 0.0
            _draw_series(axes, series, [x + step_aside for x in series.xs], look, joined=plot.joined)
        _scale_x(axes, plot, ticks)
        _scale_y(axes, plot)
        _draw_levels(axes, dict(plot.levels))
        axes.set_xlabel(plain(plot.x))
        axes.set_ylabel(textwrap.fill(plain(plot.y), _HIGH))
        axes.grid(axis="y")
        if any(labels):
            _legend(figure, labels, looks, joined=plot.joined, columns=2 if in_pairs else 1)
        said = [f"{plain(series.label)} {_said(plot, series)}".strip() for series in plot.series]
        said += [f"{plain(name)} {_number(level)} throughout" for name, level in plot.levels]
        text = f"{plain(plot.caption).rstrip('.')}. {plain(plot.y)} against {plain(plot.x)}: {'; '.join(said)}"
        return _svg(figure, plot_id, text)


def _draw_series(axes: Any, series: Series, xs: Sequence[float], look: Any, *, joined: bool) -> None:
    colour, dash, marker = look
    if series.lows:
        if joined and len(xs) > 1:
            axes.fill_between(xs, series.lows, series.highs, color=colour, alpha=0.2, linewidth=0)
        else:
            axes.vlines(xs, series.lows, series.highs, color=colour, linewidth=1.3)
    marks = {"marker": marker, "markersize": 4.5, "markevery": max(1, len(xs) // 10) if joined else 1}
    # A guide is thin and lies above: a line that keeps to it does not hide it.
    width, layer = (0.9, 3) if series.is_guide else (1.3, 2)
    axes.plot(xs, series.ys, color=colour, linestyle=dash if joined else "none", linewidth=width, zorder=layer, **marks)


def _looks_of(series: Sequence[Series]) -> list[Look]:
    measured = iter(_looks(plain(one.label) for one in series if not one.is_guide))
    return [_GUIDE if one.is_guide else next(measured) for one in series]


def _are_tight(ticks: Sequence[str]) -> bool:
    """Whether names beside each other would overlap. A letter is about half as wide as high."""
    return sum(len(tick) + 2 for tick in ticks) * _FONT / 2 > 0.8 * _WIDTH


def _room_below(ticks: Sequence[str]) -> float:
    """Points that slanted names reach below the axes."""
    longest = max(map(len, ticks), default=0) * _FONT / 2
    return longest * math.sin(math.radians(_SLANT)) if _are_tight(ticks) else 0.0


def _scale_x(axes: Any, plot: Plot, ticks: Sequence[str]) -> None:
    if plot.logarithmic:
        axes.set_xscale("log")
    values = sorted({x for series in plot.series for x in series.xs})
    if ticks:
        slant = {"rotation": _SLANT, "ha": "right", "rotation_mode": "anchor"} if _are_tight(ticks) else {}
        axes.set_xticks(range(len(ticks)), ticks, **slant)
        axes.set_xlim(-0.5, len(ticks) - 0.5)
    elif plot.logarithmic:
        _logarithmic_ticks(axes.xaxis, values if len(values) <= _FEW else None)
    elif len(values) <= _MOST_TICKS and _are_even(values):
        axes.set_xticks(values, [_number(value) for value in values])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: _number(value)))


def _scale_y(axes: Any, plot: Plot) -> None:
    if plot.logarithmic_y:
        axes.set_yscale("log")
        _logarithmic_ticks(axes.yaxis)
        return
    if plot.from_zero:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: _number(value)))


def _logarithmic_ticks(axis: Any, values: Sequence[float] | None = None) -> None:
    """At these values, or at round ones. Matplotlib would label minor ticks, too, in marks that it alone can read."""
    ticks = _round_values(*axis.get_view_interval()) if values is None else values
    axis.set_ticks(ticks, [_number(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _round_values(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten in a range of two or fewer, margins aside; else the powers.

    >>> _round_values(8.0, 300.0), _round_values(0.009, 200.0), _round_values(11.0, 19.0)
    ([10.0, 20.0, 50.0, 100.0, 200.0], [0.01, 0.1, 1.0, 10.0, 100.0], [11.0, 19.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if math.log10(high / low) < 2.2 else (1,)
    found = [digit * 10.0**power for power in powers for digit in digits]
    inside = [value for value in found if low <= value <= high]
    return inside if len(inside) > 1 else [low, high]


def _are_even(values: Sequence[float]) -> bool:
    """Whether all lie as far from each other, so that their ticks have room."""
    steps = [after - before for before, after in itertools.pairwise(values)]
    return bool(steps) and max(steps) - min(steps) < 1e-9 * max(steps)


def _said(plot: Plot, series: Series) -> str:
    """Names with their values one by one; of a line the ends and the highest point."""
    points = [(x, y) for x, y in zip(series.xs, series.ys, strict=True) if math.isfinite(y)]
    if not points:
        return "without values"
    if plot.ticks:
        return ", ".join(f"{plain(plot.ticks[round(x)])} {_number(y)}" for x, y in points)
    (first, start), (last, end) = points[0], points[-1]
    highest = max(points, key=lambda point: point[1])
    ends = f"from {_number(start)} at {_number(first)} to {_number(end)} at {_number(last)}"
    return ends if highest in (points[0], points[-1]) else f"{ends}, at most {_number(highest[1])}"


def _number(value: float) -> str:
    """As on an axis.

    >>> _number(200000.0), _number(0.30000000000000004), _number(-0.005), _number(26.6789)
    ('200,000', '0.3', '−0.005', '26.68')
    """
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return shown.replace("-", "−")


@contextmanager
def _style(plot_id: str) -> Iterator[None]:
    """Our settings over matplotlib's own, not over the user's, so that the plot comes out the same everywhere."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_STYLE, "svg.hashsalt": plot_id})
        yield


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    return figure, figure.subplots()


def _count_steps(axes: Any) -> None:
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y")


def _looks(labels: Iterable[str]) -> list[Look]:
    """Colour, dash and marker of each: what is known looks as everywhere, the rest takes what is left, in order.

    >>> [COLOURS.index(look[0]) for look in _looks(["mine", "PSP-NS, strict", "RNS", "yours", "PSP-NS, published"])]
    [2, 1, 0, 3, 1]
    """
    parts = [_parted(label) for label in labels]
    places = {name: KNOWN.index(name) for name, _ in parts if name in KNOWN}
    left = (place for place in itertools.count() if place not in places.values())
    for name in dict.fromkeys(name for name, _ in parts if name not in KNOWN):
        places[name] = next(left)
    return [_look(places[name], shift) for name, shift in parts]


def _parted(label: str) -> tuple[str, int]:
    """The name, and how far its dash is from that of the name alone.

    >>> _parted("PSP-NS, published"), _parted("published")
    (('PSP-NS', 1), ('published', 0))
    """
    for end, shift in VARIANTS.items():
        if label.endswith(end):
            return label.removesuffix(end), shift
    return label, 0


def _look(place: int, shift: int) -> Look:
    """No two of the first 280 places look alike, and no two variants of a place."""
    dash = DASHES[(place + shift) % len(DASHES)]
    return COLOURS[place % len(COLOURS)], dash, MARKERS[place % len(MARKERS)]


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _rounded(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _first_to_last(values: Sequence[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    return f"from {known[0]:.2f} % to {known[-1]:.2f} %" if known else "without users to judge"


def _draw_levels(axes: Any, levels: Mapping[str, float]) -> None:
    """Horizontal lines with their names at the right, moved apart where they would lie on each other."""
    for level in levels.values():
        axes.axhline(level, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.6)
    bottom, top = axes.get_ylim()
    ascending = sorted(levels, key=lambda name: levels[name])
    # A line of text is about a fifteenth of the height of the axes.
    places = _moved_apart([levels[name] for name in ascending], gap=(top - bottom) / 15)
    for name, place in zip(ascending, places, strict=True):
        axes.annotate(
            _shortened(name, 24), (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=_FONT - 1
        )


def _moved_apart(ascending: Sequence[float], gap: float) -> list[float]:
    """The same values, with at least `gap` between neighbours; those that stand clear stay where they are.

    >>> _moved_apart([1.0, 5.0, 5.5], gap=1.0)
    [1.0, 4.75, 5.75]
    """
    # Neighbours that clash join one block, which is centred on the mean of its members.
    blocks: list[list[float]] = []
    for value in ascending:
        blocks.append([value])
        while len(blocks) > 1 and _lowest(blocks[-1], gap) - _highest(blocks[-2], gap) < gap:
            last = blocks.pop()
            blocks[-1] += last
    return [_lowest(block, gap) + place * gap for block in blocks for place in range(len(block))]


def _lowest(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) - gap * (len(block) - 1) / 2


def _highest(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) + gap * (len(block) - 1) / 2


def _legend(
    figure: Figure, labels: Iterable[str], looks: Iterable[Look], *, joined: bool = True, columns: int = 1
) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dash if joined else "none", marker=marker, linewidth=1.3, markersize=5.5)
        for colour, dash, marker in looks
    ]
    texts = [_shortened(label, 60) for label in labels]
    figure.legend(handles, texts, loc="outside lower left", borderpad=0.6, ncols=columns)


def _shortened(text: str, length: int) -> str:
    """Short enough for a plot; the tables of the page have the whole."""
    text = _shown(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _shown(text: str) -> str:
    """Control characters are not allowed in XML: a folder's name may hold some.

    >>> _shown("a\\x1bb")
    'a\\\\x1bb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _svg(figure: Figure, plot_id: str, said: str) -> str:
    """The figure as an element for an HTML page; every id starts with `plot_id`."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # The page's font draws the text, so it does not matter what matplotlib's own lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # Inside a page, a <style> would reach beyond the plot.
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): _for_page(_local(name), value, plot_id) for name, value in element.items()}
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": _shown(said), "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """A name without its namespace: HTML knows SVG's names, and no prefixes."""
    return name.rpartition("}")[2]


def _for_page(name: str, value: str, plot_id: str) -> str:
    match name:
        case "id":
            return f"{plot_id}-{value}"
        case "href":
            return value.replace("#", f"#{plot_id}-", 1)
        case "style" | "fill" | "stroke" | "clip-path":
            for colour, css in _CSS.items():
                value = value.replace(colour, css)
            value = value.replace("url(#", f"url(#{plot_id}-")
            # The size stays, the family comes from the page; matplotlib before 3.11 writes both in one.
            value = re.sub(r"font: (?:[\w.]+ )*?([\d.]+px) [^;]*", r"font-size: \1", value)
            return re.sub(r"font-family: [^;]*(; )?", "", value)
        case _:
            return value
