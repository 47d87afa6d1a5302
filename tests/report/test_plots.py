"""Plots read back from their SVG: what is drawn stands where the numbers say."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import section_samples as samples

from pspns.experiments.sections import Plot, Series
from pspns.report import plots
from pspns.report.comparison import Difference
from pspns.report.plots import (
    COLOURS,
    KNOWN,
    Curve,
    KeptLine,
    plot_activity,
    plot_curves,
    plot_differences,
    plot_kept,
    plot_series,
)

DIFFERENCES = [
    Difference("ease", mean=-0.01, low=-0.025, high=0.004, p_value=0.2),
    Difference("popular", mean=-0.10, low=-0.12, high=-0.07, p_value=0.001),
]
CURVES = {
    "mf (a)": [Curve([10, 20, 30], [0.10, 0.30, 0.20], best_step=20), Curve([10, 20], [0.15, 0.25], best_step=20)],
    "mf (b)": [Curve([10, 20, 30], [0.05, 0.10, 0.22], best_step=30)],
}
# The second seed stops after step 20.
KEPT = {
    "true pairs": [KeptLine([10, 20, 30], [0.9, 0.8, 0.7]), KeptLine([10, 20], [0.7, 0.6])],
    "false pairs": [KeptLine([10, 20, 30], [0.5, 0.25, 0.125])],
}
TENTHS = {"mf": [0.1, 0.2, None, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]}
TRAIN_PAIRS = [1.25, 2, 3, 4, 5, 6, 7, 8, 99.5, 1234]


def differences(**changes) -> str:
    return plot_differences(**{"plot_id": "d", "differences": DIFFERENCES, "reference": "svd", "metric": "R"} | changes)


def curves(**changes) -> str:
    given = {"plot_id": "c", "runs": CURVES, "levels": {"ease": 0.2, "svd": 0.201}, "metric": "R", "part": "validation"}
    return plot_curves(**given | changes)


def activity(**changes) -> str:
    return plot_activity(**{"plot_id": "a", "runs": TENTHS, "train_pairs": TRAIN_PAIRS, "metric": "R"} | changes)


def kept(**changes) -> str:
    return plot_kept(**{"plot_id": "k", "kept": KEPT} | changes)


def bands(plot_id: str = "s") -> str:
    return plot_series(plot_id, samples.BANDS)


def dots(plot_id: str = "o") -> str:
    return plot_series(plot_id, samples.DOTS)


each_plot = pytest.mark.parametrize("draw", [differences, curves, activity, kept, bands, dots])


def lines(svg: str, colour: str, least_points: int = 2) -> list[list[tuple[float, float]]]:
    """The points of every path drawn in a colour; a gap starts a new one."""
    found = []
    for path in ElementTree.fromstring(svg).iter("path"):
        if f"stroke: {colour}" in path.get("style", "") and path.get("clip-path"):
            pieces = [re.findall(r"[-\d.]+ [-\d.]+", piece) for piece in path.get("d", "").split("M")[1:]]
            found += [[tuple(map(float, point.split())) for point in piece] for piece in pieces]
    return [points for points in found if len(points) >= least_points]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def series(number: int) -> str:
    return f"var(--series-{number}, {COLOURS[number]})"


def assert_to_scale(drawn, values):
    """Drawn places are a linear function of the values."""
    slope, start = np.polyfit(values, drawn, 1)
    np.testing.assert_allclose(np.asarray(values) * slope + start, drawn, atol=1e-3)
    assert abs(slope) > 0.1


def test_intervals_stand_where_the_numbers_say():
    svg = differences()
    bars = lines(svg, series(0))
    assert_to_scale([x for bar in bars for x, _ in bar], [-0.025, 0.004, -0.12, -0.07])
    (zero,) = lines(svg, "currentColor")
    assert_to_scale([zero[0][0], *(x for bar in bars for x, _ in bar)], [0, -0.025, 0.004, -0.12, -0.07])
    assert [label for label in texts(svg) if label in ("svd", "ease", "popular")] == ["svd", "ease", "popular"]


def test_only_clear_differences_are_filled():
    uses = ElementTree.fromstring(differences()).iter("use")
    dots = [style for use in uses if f"stroke: {series(0)}" in (style := use.get("style", ""))]
    assert [f"fill: {series(0)}" in dot for dot in dots] == [False, True]
    assert "fill: var(--ground" in dots[0]


def test_curves_stand_where_the_numbers_say():
    svg = curves()
    first, second = lines(svg, series(0))
    (third,) = lines(svg, series(1))
    assert_to_scale([y for _, y in first + second + third], [0.10, 0.30, 0.20, 0.15, 0.25, 0.05, 0.10, 0.22])
    assert_to_scale([x for x, _ in first + second + third], [10, 20, 30, 10, 20, 10, 20, 30])


def test_the_best_step_of_each_seed_is_marked():
    svg = curves()
    for number, best in ((0, [(20, 0.30), (20, 0.25)]), (1, [(30, 0.22)])):
        marks = [
            (float(use.get("x", 0)), float(use.get("y", 0)))
            for group in ElementTree.fromstring(svg).iter("g")
            if group.get("clip-path")
            for use in group.iter("use")
            if series(number) in use.get("style", "")
        ]
        ends = [point for line in lines(svg, series(number)) for point in line]
        assert len(marks) == len(best)
        assert all(any(np.allclose(mark, point, atol=1e-3) for point in ends) for mark in marks)
        # The highest point of a curve is the lowest number in SVG.
        assert {round(y, 3) for _, y in marks} == {
            round(min(y for _, y in line), 3) for line in lines(svg, series(number))
        }


def test_levels_are_drawn_and_their_names_do_not_lie_on_each_other():
    svg = curves()
    levels = [line for line in lines(svg, "currentColor") if line[0][1] == line[1][1]]
    assert len(levels) == 2
    names = {text.text: float(text.get("y", 0)) for text in ElementTree.fromstring(svg).iter("text")}
    assert names["ease"] - names["svd"] > 8


def test_a_tenth_without_users_leaves_a_gap():
    svg = activity()
    before, after = lines(svg, series(0))
    assert (len(before), len(after)) == (2, 7)
    assert_to_scale([y for _, y in before + after], [0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert_to_scale([x for x, _ in before + after], [1, 2, 4, 5, 6, 7, 8, 9, 10])
    # A decimal for small counts only.
    assert {"1.2", "1,234"} <= {word for text in texts(svg) for word in text.split()}


def test_weights_kept_are_means_over_the_seeds_still_there():
    svg = kept()
    (true,), (false,) = lines(svg, series(0)), lines(svg, series(1))
    (plain,) = [line for line in lines(svg, "currentColor") if line[0][1] == line[1][1]]
    values = [0.8, 0.7, 0.7, 0.5, 0.25, 0.125, 1.0]
    assert_to_scale([*(y for _, y in true + false), plain[0][1]], values)
    assert_to_scale([x for x, _ in true + false], [10, 20, 30, 10, 20, 30])
    assert float(min(y for _, y in [*true, *false])) > plain[0][1], "above all lies the weight of plain training"


def test_a_band_reaches_from_the_lowest_seed_to_the_highest():
    root = ElementTree.fromstring(kept())
    (band,) = [
        path for path in root.iter("path") if path.get("id", "").startswith("k-m") and " z" in path.get("d", "")
    ][:1]
    found = {tuple(map(float, point.split())) for point in re.findall(r"[-\d.]+ [-\d.]+", band.get("d", ""))}
    (use,) = [use for use in root.iter("use") if use.get("href") == f"#{band.get('id')}"]
    assert f"fill: {series(0)}" in use.get("style", "")
    shift = float(use.get("y", 0))
    (line,) = lines(kept(), series(0))
    slope = (line[0][1] - line[1][1]) / 0.1
    for (x, y), low, high in zip(line, (0.7, 0.6, 0.7), (0.9, 0.8, 0.7), strict=True):
        edges = sorted({round(edge + shift, 2) for place, edge in found if abs(place - x) < 0.01})
        mean = (low + high) / 2
        assert edges == pytest.approx(sorted({round(y - (v - mean) * slope, 2) for v in (low, high)}), abs=0.02)
    one_seed = plot_kept("k", {"all pairs": [KEPT["true pairs"][0]]})
    assert "fill-opacity: 0.2" not in one_seed
    assert "fill-opacity: 0.2" in kept()


def marks(svg: str, number: int) -> list[tuple[float, float]]:
    """Where the markers of a series stand inside the axes."""
    return [
        (float(use.get("x", 0)), float(use.get("y", 0)))
        for group in ElementTree.fromstring(svg).iter("g")
        if group.get("clip-path")
        for use in group.iter("use")
        if f"fill: {series(number)}" in use.get("style", "") and "fill-opacity" not in use.get("style", "")
    ]


def test_series_and_levels_stand_where_the_numbers_say():
    svg = bands()
    (first,), (second,) = lines(svg, series(0)), lines(svg, series(1))
    levels = [line[0][1] for line in lines(svg, "currentColor") if line[0][1] == line[1][1]]
    ys = [y for one in samples.BANDS.series for y in one.ys]
    assert_to_scale([*(y for _, y in first + second), *levels], [*ys, 28.2, 11.5])
    assert_to_scale([x for x, _ in first + second], [x / 1000 for one in samples.BANDS.series for x in one.xs])
    assert {"ease", "popular", "RNS", "PSP-NS, strict", "step", "Recall@20, validation, %"} <= set(texts(svg))
    assert "60,000" in texts(svg)


def test_a_series_has_the_band_it_was_given():
    root = ElementTree.fromstring(bands())
    (line,) = lines(bands(), series(0))
    given = samples.BANDS.series[0]
    slope = (line[-1][1] - line[0][1]) / (given.ys[-1] - given.ys[0])
    (use, _) = [use for use in root.iter("use") if "fill-opacity: 0.2" in use.get("style", "")]
    (path,) = [path for path in root.iter("path") if f"#{path.get('id')}" == use.get("href")]
    points = [tuple(map(float, point.split())) for point in re.findall(r"[-\d.]+ [-\d.]+", path.get("d", ""))]
    shift = float(use.get("y", 0))
    for (x, y), value, low, high in zip(line, given.ys, given.lows, given.highs, strict=True):
        edges = {round(edge + shift, 1) for place, edge in points if abs(place - x) < 0.01}
        wanted = {round(y + (bound - value) * slope, 1) for bound in (low, high)}
        assert all(min(abs(edge - one) for edge in edges) < 0.15 for one in wanted)
    without = plot_series("s", samples.LOGARITHMIC)
    assert "fill-opacity: 0.2" not in without


def test_on_a_logarithmic_axis_equal_ratios_are_equal_distances():
    svg = plot_series("l", samples.LOGARITHMIC)
    (line,) = lines(svg, series(0))
    assert_to_scale([x for x, _ in line], np.log10(samples.LOGARITHMIC.series[0].xs))
    assert {"0.001", "0.01", "0.1", "1"} <= set(texts(svg))
    many = Plot(
        "p", "c", "x", "y", (Series("a", tuple(map(float, range(1, 2000, 50))), (1.0,) * 40),), logarithmic=True
    )
    assert {"10", "100", "1,000"} <= set(texts(plot_series("p", many)))


def line_over(*xs: float, label: str = "a", **changes) -> Plot:
    return Plot("p", "c", "x", "y", (Series(label, xs, tuple(1.0 + x for x in xs)),), **changes)


def ticks(svg: str, axis: str) -> list[str]:
    """The labels of an axis, x or y."""
    (found,) = [
        group
        for group in ElementTree.fromstring(svg).iter("g")
        if group.get("id", "").endswith(f"matplotlib.axis_{'xy'.index(axis) + 1}")
    ]
    return [
        text.text or "" for group in found.iter("g") if "tick" in group.get("id", "") for text in group.iter("text")
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1600, 50_000, ["2,000", "5,000", "10,000", "20,000", "50,000"]),
        (7, 1400, ["10", "100", "1,000"]),
        (0.004, 0.3, ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]),
        (3.1, 4.4, None),
    ],
)
def test_a_logarithmic_axis_has_round_ticks_in_plain_figures(low, high, expected):
    plot = line_over(*np.geomspace(low, high, 12), logarithmic=True, logarithmic_y=True)
    for axis in "xy":
        shown = ticks(plot_series("p", plot), axis)
        assert len(shown) == len(set(shown)) > 1
        assert all(re.fullmatch(r"[\d.,]+", label) for label in shown)
    if expected:
        assert ticks(plot_series("p", plot), "x") == expected


def test_a_few_evenly_spaced_values_have_a_tick_each():
    assert ticks(plot_series("p", line_over(*range(1, 11))), "x") == [str(number) for number in range(1, 11)]
    assert "2" not in ticks(plot_series("p", line_over(1, 2, 3, 50)), "x"), "labels would lie on each other"
    assert len(ticks(plot_series("p", line_over(*range(30))), "x")) < 10


def test_an_axis_begins_at_zero_where_it_is_asked_to():
    assert ticks(plot_series("p", line_over(20, 30, from_zero=True)), "y")[0] == "0"
    assert ticks(plot_series("p", line_over(20, 30)), "y")[0] != "0"


def test_a_logarithmic_y_axis_is_to_scale():
    svg = plot_series("p", line_over(1, 10, 100, logarithmic=True, logarithmic_y=True))
    (line,) = lines(svg, series(0))
    assert_to_scale([y for _, y in line], np.log10([2, 11, 101]))


def test_a_long_y_label_wraps():
    svg = plot_series("p", Plot("p", "c", "x", "change, in units of that at factor 1", (Series("", (0, 1), (0, 1)),)))
    assert {"change, in units of that at", "factor 1"} <= set(texts(svg))


def test_a_guide_is_thin_dashed_ink_without_markers():
    guide = Series("in proportion", (1, 2), (1, 2), is_guide=True)
    svg = plot_series("p", Plot("p", "c", "x", "y", (guide, Series("SGD", (1, 2), (1.5, 1.7)))))
    (drawn,) = [
        path
        for path in ElementTree.fromstring(svg).iter("path")
        if path.get("clip-path") and "stroke: currentColor" in path.get("style", "")
    ]
    assert "stroke-dasharray" in drawn.get("style", "")
    assert "stroke-width: 0.9" in drawn.get("style", "")
    assert len(marks(svg, 0)) == 2, "what was measured has the first colour"
    assert "in proportion" in texts(svg)


def looks(*labels: str) -> list[tuple[str, str]]:
    """Colour and dash of each line, as drawn."""
    plot = Plot("p", "c", "x", "y", tuple(Series(label, (0, 1), (0, n)) for n, label in enumerate(labels)))
    styles = [
        path.get("style", "")
        for path in ElementTree.fromstring(plot_series("p", plot)).iter("path")
        if path.get("clip-path") and "--series-" in path.get("style", "")
    ]
    return [
        (re.findall(r"--series-\d", style)[0], "".join(re.findall(r"stroke-dasharray: [^;]*", style)))
        for style in styles
    ]


def test_a_method_looks_the_same_in_all_plots():
    many = looks(*KNOWN)
    assert len({colour for colour, _ in many}) == len(KNOWN)
    assert looks("mine", "PSP-NS", "RNS")[1:] == [many[KNOWN.index("PSP-NS")], many[KNOWN.index("RNS")]]
    mine, *others = looks("mine", "PSP-NS", "RNS")
    assert mine[0] not in {colour for colour, _ in others}


def test_variants_of_a_method_share_its_colour_and_not_its_dash():
    variants = looks("PSP-NS", "PSP-NS, published", "PSP-NS, strict", "RNS")
    assert {colour for colour, _ in variants[:3]} == {looks("PSP-NS")[0][0]} != {variants[3][0]}
    assert len({dash for _, dash in variants[:3]}) == 3


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1])
def test_the_page_has_every_colour_and_each_stands_out_from_its_ground(scheme):
    style = (Path(plots.__file__).parent / "style.css").read_text(encoding="utf-8")
    ground = luminance(re.findall(r"--ground: (#\w+)", style)[scheme])
    for number in range(len(COLOURS)):
        colour = luminance(re.findall(rf"--series-{number}: (#\w+)", style)[scheme])
        darker, lighter = sorted((ground, colour))
        assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_dots_that_are_not_joined_stand_side_by_side_with_their_bars():
    svg = dots()
    left, right = marks(svg, 0), marks(svg, 1)
    assert len(left) == len(right) == 3
    assert_to_scale([y for _, y in left + right], [y for one in samples.DOTS.series for y in one.ys])
    assert_to_scale([x for x, _ in left + right], [-0.15, 0.85, 1.85, 0.15, 1.15, 2.15])
    bars = [bar for number in (0, 1) for bar in lines(svg, series(number))]
    assert_to_scale(
        [y for bar in bars for _, y in bar],
        [y for one in samples.DOTS.series for pair in zip(one.lows, one.highs, strict=True) for y in pair],
    )
    assert {bar[0][0] for bar in bars} == {x for x, _ in left + right}
    assert set(samples.DOTS.ticks) <= set(texts(svg))


def test_many_long_names_are_slanted():
    names = tuple(f"a sampler called {number}" for number in range(9))
    plot = Plot("p", "c", "x", "y", (Series("a", tuple(map(float, range(9))), (1.0,) * 9),), ticks=names)
    turned = [text for text in ElementTree.fromstring(plot_series("p", plot)).iter("text") if text.text in names]
    assert len(turned) == 9
    assert all("rotate(-40" in text.get("transform", "") for text in turned)
    level = [text for text in ElementTree.fromstring(dots()).iter("text") if text.text in samples.DOTS.ticks]
    assert not any("rotate(-40" in text.get("transform", "") for text in level)


def test_a_single_point_and_no_value_at_all_are_drawn_as_far_as_they_go():
    plot = Plot("p", "c", "x", "y", (Series("one", (2.0,), (3.0,), (2.5,), (3.5,)), Series("none", (), ())))
    svg = plot_series("p", plot)
    assert len(marks(svg, 0)) == 1
    assert len(lines(svg, series(0))) == 1, "its bar"
    assert "one from 3 at 2 to 3 at 2; none without values" in svg


def test_series_differ_in_more_than_colour():
    svg = activity(runs={f"run {number}": TENTHS["mf"] for number in range(7)})
    root = ElementTree.fromstring(svg)
    dashes = {
        re.search(r"stroke-dasharray: ([\d.,]+)", path.get("style", ""))
        and re.search(r"stroke-dasharray: ([\d.,]+)", path.get("style", "")).group(1)
        for path in root.iter("path")
        if "--series-" in path.get("style", "") and path.get("clip-path")
    }
    assert len(dashes) == 5


@each_plot
def test_ink_font_and_colours_come_from_the_page(draw):
    svg = draw()
    assert "currentColor" in svg
    assert "--series-0" in svg
    outside_fallbacks = re.sub(r"var\([^)]*\)", "", svg)
    assert not re.search(r"#[0-9a-f]{6}\b", outside_fallbacks)
    assert "font-family" not in svg
    assert "font-size: 11px" in svg
    assert "<style" not in svg
    assert "<metadata" not in svg


@each_plot
def test_no_text_is_in_marks_that_matplotlib_alone_can_read(draw):
    assert not [text for text in texts(draw()) if "$" in text]


@each_plot
def test_every_id_is_the_plots_own(draw):
    one, two = (ElementTree.fromstring(draw(plot_id=plot_id)) for plot_id in ("one", "two"))
    ids = [element.get("id") for root in (one, two) for element in root.iter() if element.get("id")]
    assert len(ids) > 20
    assert len(set(ids)) == len(ids)
    for root, plot_id in ((one, "one"), (two, "two")):
        own = {element.get("id") for element in root.iter()}
        text = ElementTree.tostring(root, encoding="unicode")
        used = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
        assert used
        assert used <= own
        assert all(name.startswith(f"{plot_id}-") for name in used)


@each_plot
def test_it_is_said_to_those_who_cannot_see_it(draw):
    root = ElementTree.fromstring(draw())
    assert root.get("role") == "img"
    assert root.get("viewBox", "").startswith("0 0 400 ")
    assert {
        differences: "popular -10.00 (-12.00 to -7.00)",
        curves: "mf (a) at most 30.00 %",
        activity: "100.00 %",
        kept: "true pairs from 0.80 to 0.70; false pairs from 0.50 to 0.12",
        bands: "Recall@20, validation, % against step: RNS from 1 at 0 to 26.5 at 60,000; PSP-NS, strict from 2 "
        "at 0 to 24.5 at 40,000; ease 28.2 throughout; popular 11.5 throughout",
        dots: "Points gained by each sampler. points against sampler: MovieLens-1M DNS 0.5, MixGCF −0.2, AHNS with",
    }[draw] in root.get("aria-label", "")


def test_names_are_text_and_nothing_else():
    hostile = ['<script>alert("1")</script>', "a$b$c", "_hidden", "x\x1b[31m", 'id="figure_1"', "中文"]
    svg = activity(runs=dict.fromkeys(hostile, TENTHS["mf"]))
    assert "<script" not in svg
    assert "\x1b" not in svg
    assert set(hostile) - {"x\x1b[31m"} <= set(texts(svg))
    assert "x\\x1b[31m" in texts(svg)


def test_letters_that_matplotlib_lacks_are_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "中文" in texts(differences(reference="中文"))


def test_long_names_are_shortened():
    svg = differences(reference="a" * 500)
    assert max(len(text) for text in texts(svg)) < 80
    assert f"{'a' * 29}…" in texts(svg)


@each_plot
def test_it_comes_out_the_same_whatever_the_users_own_settings(draw):
    plain = draw()
    with matplotlib.rc_context({"font.size": 30, "xtick.labelsize": 30, "ytick.direction": "in"}):
        assert draw() == plain
        assert matplotlib.rcParams["font.size"] == 30
