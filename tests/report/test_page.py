"""The page, read back with an HTML parser: what it says is what the runs' files say."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from html_tree import Element, Tree, rows_under

from pspns.errors import DataError, SettingsError
from pspns.options import from_tables, resolve
from pspns.report.comparison import tables_of
from pspns.report.page import write_page
from pspns.report.words import cell, verdict
from pspns.settings_file import settings_file


def page_of(*folders: Path, out: Path) -> Element:
    write_page(folders, out)
    return Tree(out.read_text(encoding="utf-8")).root


def copied(folder: Path, to: Path, **data: object) -> Path:
    """A copy of a run with other facts in the `data` of its result."""
    shutil.copytree(folder, to)
    result = json.loads((to / "result.json").read_text(encoding="utf-8"))
    result["data"] |= data
    (to / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return to


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory) -> Element:
    """Two runs in one table, and one that stands apart."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    return page_of(runs["plain"], runs["published"], runs["normal"], out=out)


def test_title_and_headline(page, runs):
    assert page.find("title")[0].text == "pspns report"
    assert page.find("h1")[0].text == "pspns report"
    together, apart = tables_of([runs["plain"], runs["normal"], runs["published"]])
    headlines = [p.text for p in page.find("p") if p.attributes.get("class") == "headline"]
    assert headlines == [verdict(together, "recall@5"), verdict(apart, "recall@5")]


def test_tables_that_must_not_be_compared_are_announced(page, runs, tmp_path):
    top = page.find("header")[0].text
    assert "fall into 2 tables, because they were judged under 2 protocols (published, strict)" in top
    other_data = page_of(runs["plain"], runs["other-data"], out=tmp_path / "two.html").find("header")[0].text
    assert "on 2 data sets or splits" in other_data
    assert "protocols" not in other_data
    assert page_of(runs["plain"], out=tmp_path / "one.html").find("header")[0].text == "pspns report"


def test_the_warning_stands_in_a_box_where_there_is_one(page):
    strict, published = page.find("section")
    boxes = [element for element in published.all() if element.attributes.get("class") == "box warning"]
    assert len(boxes) == 1
    assert "Warning: held-out labels shape the candidate set" in boxes[0].text
    assert "the rule under which the paper's figures come back" in boxes[0].text
    assert "Warning" not in strict.text
    assert "built from train alone" in strict.text


def test_the_test_table_has_every_figure_and_marks_the_best(page, runs):
    table = tables_of([runs["plain"], runs["normal"]])[0]
    rows = rows_under(page.find("section")[0], "Test under mask train+valid, best first by Recall@5")
    names = ["recall", "precision", "ndcg", "hit-rate", "mrr", "map", "item-coverage", "mean-popularity"]
    expected = []
    for k in (5, 10):
        expected.append([f"First {k} places"])
        for row in table.ranked("recall@5"):
            cells = []
            for name in names:
                metric = f"{name}@{k}"
                best = row.mean[metric] == max(other.mean[metric] for other in table.rows) and names.index(name) < 6
                figure, _, spread = cell(metric, row.mean[metric], row.spread.get(metric)).partition(" ± ")
                cells.append(figure + (" (best)" if best else "") + (f" ± {spread}" if spread else ""))
            expected.append([f"{row.label} {row.note}".strip(), *cells])
    assert rows == expected
    bold = [strong.text for strong in page.find("section")[0].find("strong") if re.fullmatch(r"[\d.]+", strong.text)]
    assert len(bold) >= 6 * 2


def test_the_other_mask_has_its_own_table(page, runs):
    table = tables_of([runs["plain"], runs["normal"]])[0]
    rows = rows_under(page.find("section")[0], "For comparison with papers: the same test under mask train")
    best = table.ranked("recall@5")[0]
    shown = best.mean_other_masks["train"]
    metrics = [f"{name}@{k}" for k in (5, 10) for name in ("recall", "precision", "ndcg")]
    assert [text.removesuffix(" (best)") for text in rows[0][1:]] == [cell(name, shown[name], None) for name in metrics]
    assert len(rows) == 5


def test_differences_are_those_of_the_table(page, runs):
    table = tables_of([runs["plain"], runs["normal"]])[0]
    best = table.ranked("recall@5")[0]
    found = sorted(table.differences("recall@5", best), key=lambda difference: -difference.mean)
    rows = rows_under(page.find("section")[0], f"Recall@5 minus that of {best.label}")
    assert [row[0] for row in rows] == [difference.label for difference in found]
    for row, difference in zip(rows, found, strict=True):
        assert float(row[1].replace("−", "-")) == pytest.approx(100 * difference.mean, abs=0.005001)
        low, high = (float(word) for word in row[2].replace("−", "-").split(" to "))
        assert (low, high) == pytest.approx((100 * difference.low, 100 * difference.high), abs=0.005001)
        assert row[3] == ("< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}")


def test_who_is_judged(page, runs):
    evaluated = json.loads((runs["plain"] / "result.json").read_text())["evaluated"]
    keys = ("users", "users_unknown_to_train", "users_without_held_out_items")
    assert rows_under(page.find("section")[0], "Who is judged") == [
        [name, *(f"{evaluated[part][key]:,}" for key in keys)]
        for part, name in (("valid", "Validation"), ("test", "Test"))
    ]


def test_facts_of_the_data_are_listed(page, runs):
    facts = json.loads((runs["plain"] / "result.json").read_text())["data"]["facts"]
    assert facts
    assert set(facts) <= {item.text for item in page.find("li")}


def test_groups_by_activity(runs, tmp_path):
    page = page_of(runs["plain"], runs["other-k"], out=tmp_path / "report.html")
    plain, other = (json.loads((runs[name] / "result.json").read_text())["groups"] for name in ("plain", "other-k"))
    rows = rows_under(page, "by activity")
    assert [row[0] for row in rows] == ["Least active 30", "Least active 20", *(f"Tenth {n}" for n in range(1, 11))]
    # Only the first run judged 30, only the second 20.
    assert rows[0][3:] == [cell("recall@5", plain["least_active_30"]["test"]["recall@5"], None), "–"]
    assert rows[1][3:] == ["–", cell("recall@5", other["least_active_20"]["test"]["recall@5"], None)]
    tenth = plain["decile_10"]
    assert rows[-1][1:4] == [
        str(tenth["users"]),
        f"{tenth['mean_train_pairs']:.1f}",
        cell("recall@5", tenth["test"]["recall@5"], None),
    ]


def test_how_it_was_made(page, runs):
    result = json.loads((runs["plain"] / "result.json").read_text())
    rows = {row[0]: row[1:] for row in rows_under(page.find("section")[0], "Runs, their time and their place")}
    assert rows["Folder"] == ["plain", "normal"]
    assert rows["Seeds"] == ["0, 1", "0, 1"]
    assert rows["Steps, each seed"][0] == "12 · 12"
    assert rows["Step kept, each seed"][0] == " · ".join(map(str, result["best_step"]))
    assert rows["torch"][0] == result["versions"]["torch"]
    assert rows["training"][0] == f"{result['seconds']['training']:,.1f}"
    assert result["data"]["fingerprint"] in page.find("section")[0].text


def test_a_run_without_a_training_loop(runs, tmp_path):
    page = page_of(runs["plain"], runs["svd"], out=tmp_path / "report.html")
    rows = {row[0]: row[1:] for row in rows_under(page, "Runs, their time and their place")}
    assert rows["Folder"] == ["plain", "svd"]
    assert rows["Seeds"] == ["0, 1", "needs none"]
    assert rows["Steps, each seed"] == ["12 · 12", "no training loop"]
    assert [summary.text for summary in page.find("summary")] == ["Settings of mf", "Settings of svd"]


def test_settings_of_all_kinds_can_be_read_back():
    settings = {
        "data": {"columns": {"user": 'the "one"', "ärtikel nr.": "b\\c"}},
        "run": {"seeds": [3], "memory_gib": 0.5},
    }
    assert tomllib.loads(settings_file(settings)) == settings


def test_the_settings_shown_repeat_the_run(page, runs):
    for shown, name in zip(page.find("pre"), ("plain", "normal", "published"), strict=True):
        settings = resolve(from_tables("page", tomllib.loads("".join(map(str, shown.children))))).as_dict()
        recorded = json.loads((runs[name] / "result.json").read_text())["settings"]
        assert json.loads(json.dumps(settings)) == recorded


def test_curves_only_where_something_was_trained(page, runs, tmp_path):
    assert "While training" in [heading.text for heading in page.find("h3")]
    without = page_of(runs["svd"], out=tmp_path / "report.html")
    assert "While training" not in [heading.text for heading in without.find("h3")]
    assert len(without.find("figure")) == 2


def test_curves_show_each_runs_best_value_and_the_baselines_on_validation(page, runs):
    result = json.loads((runs["plain"] / "result.json").read_text())
    seen = [json.loads(line) for line in (runs["plain"] / "metrics.jsonl").read_text().splitlines()]
    (said,) = [
        svg.attributes["aria-label"]
        for svg in page.find("section")[0].find("svg")
        if "against training steps" in svg.attributes["aria-label"]
    ]
    highest = max(line["metrics"]["recall@5"] for line in seen)
    assert f"mf (plain) at most {100 * highest:.2f} %" in said
    for name in ("popular", "svd", "ease"):
        assert f"{name} {100 * result['baselines'][name]['valid']['recall@5']['mean']:.2f} %" in said


def test_curves_have_a_line_for_each_seed(page):
    (plot,) = [
        svg for svg in page.find("section")[0].find("svg") if "against training steps" in svg.attributes["aria-label"]
    ]
    paths = [path for path in plot.find("path") if "clip-path" in path.attributes]
    for number in (0, 1):
        own = [path.attributes["d"] for path in paths if f"--series-{number}" in path.attributes["style"]]
        assert [path.count("L") for path in own] == [2, 2]  # three evaluations


def test_noise_is_told_and_its_runs_stand_apart(runs, tmp_path):
    page = page_of(runs["noisy"], runs["plain"], out=tmp_path / "report.html")
    top = page.find("header")[0].text
    assert "judged after training with 2 shares of noise (0, 0.3)." in top
    assert "data sets" not in top
    noisy, plain = page.find("section")
    noise = json.loads((runs["noisy"] / "result.json").read_text())["noise"]
    assert f"Noise: {noise['pairs']} random false pairs added to train (30 % of its pairs)" in noisy.text
    assert f"{noise['held_out']['test']} for the test. Everything is learned from train with its noise" in noisy.text
    assert "Noise:" not in plain.text
    three = page_of(runs["noisy"], runs["plain"], runs["other-data"], out=tmp_path / "three.html")
    assert "on 2 data sets or splits and after training with 2 shares" in three.find("header")[0].text


def test_what_a_denoiser_kept(runs, tmp_path):
    page = page_of(runs["noisy"], runs["noisy-plain"], out=tmp_path / "report.html")
    assert "What the denoiser kept" in [heading.text for heading in page.find("h3")]
    denoiser = json.loads((runs["noisy"] / "result.json").read_text())["denoiser"]
    rows = rows_under(page, "Mean weight kept")
    for row, group in zip(rows, ("all", "true", "false"), strict=True):
        means = [sum(kept[group] for kept in denoiser[f"kept_at_{which}_step"]) / 2 for which in ("last", "best")]
        assert row == ["mf (noisy)", f"{group} pairs", *(f"{mean:.3f}" for mean in means)]
    assert len({row[2] for row in rows}) == 3, "weights that are all alike would tell nothing"
    (plot,) = [svg for svg in page.find("svg") if "Mean weight" in svg.attributes["aria-label"]]
    said = plot.attributes["aria-label"]
    first = [json.loads(line) for line in (runs["noisy"] / "metrics.jsonl").read_text().splitlines()][:2]
    for group in ("true", "false"):
        began = sum(line["kept"][group] for line in first) / 2
        assert f"mf (noisy): {group} pairs from {began:.2f} to " in said
    assert "all pairs" not in said
    assert "A weight is what a pair was trained with" in page.text
    assert "false ones are the noise that was added" in page.text


def test_a_denoiser_without_noise_shows_all_pairs(runs, tmp_path):
    page = page_of(runs["denoised"], out=tmp_path / "report.html")
    assert [row[:2] for row in rows_under(page, "Mean weight kept")] == [["mf", "all pairs"]]
    (plot,) = [svg for svg in page.find("svg") if "Mean weight" in svg.attributes["aria-label"]]
    assert "steps: all pairs from" in plot.attributes["aria-label"]
    assert "Which pairs are false is not known here" in page.text


def test_without_a_denoiser_nothing_is_said_of_weights(page):
    assert "What the denoiser kept" not in [heading.text for heading in page.find("h3")]


def test_where_the_test_chose_the_curves_say_so(runs, tmp_path):
    page = page_of(runs["best-on-test"], out=tmp_path / "report.html")
    assert any("Recall@5 on the test part against gradient steps" in found.text for found in page.find("figcaption"))
    assert "these figures are too good" in page.text


def test_a_baseline_that_was_left_out_is_named_with_its_reason(runs, tmp_path):
    folder = copied(runs["plain"], tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    del result["baselines"]["ease"]
    result["baselines_left_out"] = {"ease": "60 items need 3 bytes"}
    (folder / "result.json").write_text(json.dumps(result))
    page = page_of(folder, out=tmp_path / "report.html")
    assert "Baseline ease was left out: 60 items need 3 bytes" in page.text


def test_names_from_outside_are_text(runs, tmp_path):
    source = "<script>alert(1)</script>"
    folder = copied(runs["plain"], tmp_path / "<script>alert(1)", source=source, facts=["<img src=x> & 'so on'"])
    other = copied(runs["normal"], tmp_path / "{{ 7 * 7 }}", source=source)
    page = page_of(folder, other, out=tmp_path / "report.html")
    assert not page.find("script", "img")
    assert page.find("h2")[0].text == f"{source}Protocol strict"
    assert "<img src=x> & 'so on'" in [item.text for item in page.find("li")]
    assert "mf (<script>alert(1))" in page.text
    assert "mf ({{ 7 * 7 }})" in page.text


def test_nothing_is_fetched_and_nothing_runs(page):
    assert not page.find("script", "link", "iframe", "object", "embed", "img")
    for element in page.all():
        assert not [name for name in element.attributes if name.startswith("on") or name == "src"]
        assert (element.attributes.get("href") or "#").startswith("#")
    (style,) = page.find("style")
    assert not re.search(r"url\(|@import|https?:", "".join(map(str, style.children)))


def test_ids_are_unique_and_references_have_targets(page):
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for element in page.all():
        href = element.attributes.get("href")
        assert href is None or href[1:] in ids
        assert element.attributes.get("aria-labelledby", ids[0]) in ids


def test_it_can_be_read_without_seeing_it(page):
    assert page.find("html")[0].attributes["lang"] == "en"
    levels = [int(heading.tag[1]) for heading in page.find("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert len(page.find("table")) == 2 * 6
    for table in page.find("table"):
        assert table.find("caption")[0].text
        assert all(head.attributes.get("scope") for head in table.find("th"))
    assert len(page.find("figure")) == 2 * 3
    for figure in page.find("figure"):
        (svg,) = figure.find("svg")
        assert svg.attributes["role"] == "img"
        assert svg.attributes["aria-label"]
        assert figure.find("figcaption")[0].text


def test_wide_tables_scroll_in_a_box_of_their_own(page):
    boxes = [element for element in page.all() if element.attributes.get("class") == "scroll"]
    assert len(boxes) == len(page.find("table"))
    # Reached by keyboard too, and by name.
    assert all(box.attributes["tabindex"] == "0" and box.attributes["aria-labelledby"] for box in boxes)
    assert all(len(box.find("table")) == 1 for box in boxes)


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    for name in ("one.html", "two.html"):
        write_page([runs["plain"], runs["normal"]], tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_failure_leaves_the_earlier_page_and_nothing_else(runs, tmp_path):
    out = tmp_path / "report.html"
    out.write_text("earlier")
    with pytest.raises(DataError, match="is not a run's folder"):
        write_page([runs["plain"], tmp_path], out)
    assert out.read_text() == "earlier"
    write_page([runs["svd"]], out)
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_missing_folders_are_made(runs, tmp_path):
    write_page([runs["svd"]], tmp_path / "a" / "b" / "report.html")
    assert (tmp_path / "a" / "b" / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_what_cannot_be_written_is_refused(runs, tmp_path):
    with pytest.raises(SettingsError, match="is a folder; give --out the name of a file"):
        write_page([runs["svd"]], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="choose another --out"):
        write_page([runs["svd"]], tmp_path / "file" / "report.html")
    with pytest.raises(SettingsError, match="at least one run"):
        write_page([], tmp_path / "report.html")


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_the_way_to_get_it(missing, runs, tmp_path, monkeypatch):
    for module in ("pspns.report.sections", "pspns.report.plots"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SettingsError, match=rf"needs {missing}.*pip install 'pspns\[report\]'"):
        write_page([runs["svd"]], tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
