"""The reproduction's page, read back with an HTML parser: what it says is what sections and records say."""

from __future__ import annotations

import base64
import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
import section_samples as samples
from html_tree import Element, Tree, rows_under

from pspns.errors import DataError, SettingsError
from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.records import Records
from pspns.experiments.sections import Number, Plot, Section, Series, Table, Words
from pspns.report.downloads import table_as_csv, table_as_latex
from pspns.report.reproduction import write_reproduction


def page_of(*sections: Section, folder: Path, headline: Section = samples.HEADLINE) -> Element:
    samples.write_records(folder / "cells")
    out = folder / "page.html"
    write_reproduction(sections, headline, folder / "cells", out)
    return Tree(out.read_text(encoding="utf-8")).root


def section_with(*cells, heads=("x",), note="", missing=()) -> Section:
    columns = tuple(f"c{number}" for number in range(len(cells)))
    names = tuple(f"h{number}" for number in range(len(heads)))
    table = Table("only", "Only table", names, columns, ((heads, cells),), note)
    return Section("one", "One", ("Words.",), (table,), missing=missing)


def part(page: Element, anchor: str) -> Element:
    (found,) = [element for element in page.all() if element.attributes.get("id") == anchor]
    return found


def of_class(element: Element, name: str) -> list[Element]:
    return [one for one in element.all() if name in (one.attributes.get("class") or "").split()]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Element:
    return page_of(*samples.SECTIONS, folder=tmp_path_factory.mktemp("page"))


def test_the_headline_comes_first_then_contents_then_each_experiment(page):
    assert [heading.text for heading in page.find("h2")] == [
        "What reproduces, and what does not", "Contents", "What was run", "All methods", "Claims", "Records",
    ]  # fmt: skip
    assert (
        of_class(page, "headline")[0].text == "Under published the figures come back; under strict PSP-NS is below RNS."
    )
    assert [item.text for item in page.find("nav")[0].find("li")] == [
        "What was run", "All methods (8 records are missing)", "Claims (1 record is missing)", "Records",
    ]  # fmt: skip


def test_figures_stand_with_spread_interval_note_and_what_marks_them(page):
    rows = rows_under(part(page, "sample"), "MovieLens-1M, Recall@20 under published & strict")
    assert rows[0] == [
        "RNS", "26.68", "26.20 ± 0.11", "−1.8 %", "28.51 ± 0.12 limit", "–no figure", "–no figure", "1,234.6",
    ]  # fmt: skip
    assert rows[1][5:7] == ["−3.51, marked as worse✗ −3.81 to −3.20", "< 0.001"]
    assert rows[2][0] == "50 % of_{x} & <b>"
    assert rows[2][5] == "+1.09, marked as better✓ +0.70 to +1.45"
    assert rows[2][7] == "0.0", "what is rounded to zero has no sign"


def test_tones_have_a_class_a_sign_for_the_eye_and_words_for_the_ear(page):
    better, worse = (
        [one for one in of_class(part(page, "sample"), "tone") if tone in one.attributes["class"]]
        for tone in ("better", "worse")
    )
    assert (len(better), len(worse)) == (1, 2)
    in_details = {id(mark) for one in of_class(page, "each") for mark in of_class(one, "mark")}
    marks = [mark for mark in of_class(page, "mark") if mark.text and id(mark) not in in_details]
    assert sorted(mark.text for mark in marks) == ["✓", "✗", "✗"]
    assert all(mark.attributes["aria-hidden"] == "true" for mark in marks)


def test_rows_whose_names_begin_alike_share_a_heading(page):
    rows = rows_under(page, "Two parts of a row's name")
    assert [row[0] for row in rows] == [
        "MovieLens-1M", "inactive", "other", "all", "Epinions", "inactive", "other", "all",
    ]  # fmt: skip
    assert rows[0] == ["MovieLens-1M"]
    assert rows[5] == ["inactive", *(f"{number}.00" for number in range(30, 42))]
    # Each claim has a place of its own, so a heading each would be no help.
    assert rows_under(page, "Claims in words")[0][0] == "PSP-NS is above every baseline Table 2"


def test_columns_whose_titles_begin_alike_share_that_beginning(tmp_path):
    columns = ("users", "Recall@20, paper", "Recall@20, strict", "p")
    table = Table("t", "Shared", ("method",), columns, ((("RNS",), tuple(Number(n, record="r") for n in range(4))),))
    page = page_of(Section("s", "S", (), (table,)), folder=tmp_path)
    (shown,) = [table for table in page.find("table") if table.find("caption")[0].text == "Shared"]
    first, second = shown.find("thead")[0].find("tr")
    assert [(head.text, head.attributes.get("colspan"), head.attributes["scope"]) for head in first.find("th")] == [
        ("method", None, "col"), ("users", None, "col"), ("Recall@20", "2", "colgroup"), ("p", None, "col"),
    ]  # fmt: skip
    assert [head.text for head in second.find("th")] == ["paper", "strict"]
    assert [head.attributes.get("rowspan") for head in first.find("th")] == ["2", "2", None, "2"]


def test_figures_lead_to_the_line_of_their_record(page):
    rows = part(page, "table-sample-ml-1m").find("tbody")[0].find("tr")
    links = {link.text: link.attributes["href"] for row in rows for link in row.find("a")}
    assert links == {
        "26.20": f"#record-{samples.UNIFORM}",
        "28.51": f"#record-{samples.UNIFORM}",
        "37.40": f"#record-{samples.PUBLISHED}",
        "−5.5 %": f"#record-{samples.PUBLISHED}",
        "25.00": f"#record-{samples.STRICT}",
        "−3.51, marked as worse": f"#record-{samples.STRICT}",
    }, "29.60 names a record that is not there, 26.68 is the paper's"


def test_every_record_has_a_line_and_its_file(page, tmp_path):
    lines = {item.attributes["id"]: item.text for item in part(page, "records").find("li")}
    assert list(lines) == [
        f"record-{name}" for name in (samples.PUBLISHED, samples.STRICT, samples.UNIFORM, samples.JOB)
    ]
    assert lines[f"record-{samples.STRICT}"] == (
        f"{samples.STRICT}.json LightGCN, PSP-NS, strict; positives psp: rank 30; weighting log; model lightgcn. "
        "Seeds 0, 1, 2. Steps 12,000 · 13,000 · 14,000. 94 s on NVIDIA H200."
    ), "settings at their defaults, such as three copies, are not named"
    assert lines[f"record-{samples.JOB}"].endswith("Measurement. CPU (x86_64, 2 threads).")
    page_of(*samples.SECTIONS, folder=tmp_path)
    for item in part(page, "records").find("li"):
        (link,) = item.find("a")
        assert (tmp_path / unquote(link.attributes["href"])).is_file()


def test_the_folder_of_records_is_found_from_wherever_the_page_lies(tmp_path):
    samples.write_records(tmp_path / "a b" / "cells")
    out = tmp_path / "pages" / "deep" / "page.html"
    write_reproduction([], samples.HEADLINE, tmp_path / "a b" / "cells", out)
    page = Tree(out.read_text(encoding="utf-8")).root
    for item in part(page, "records").find("li"):
        assert (out.parent / unquote(item.find("a")[0].attributes["href"])).resolve().is_file()


def test_what_was_run_is_told_from_the_records(page):
    run = part(page, "what-was-run")
    assert rows_under(run, "Data") == [
        ["MovieLens-1M", "6,039", "3,628", "800,000", "100,000", "100,001", "3", "given"]
    ]
    facts = {term.text: words.text for term, words in zip(run.find("dt"), run.find("dd"), strict=True)}
    assert facts == {
        "Records": "3 trainings, 1 other measurement",
        "Models": "LightGCN",
        "Methods": "PSP-NS, RNS",
        "Protocols": "published, strict",
        "Seeds of a training": "3 (3 trainings)",
        "Steps, all seeds together": "117,000",
        "Time of all training": "90 s",  # one loop for all three
        "Machines": "NVIDIA H200 (3 records); CPU (x86_64, 2 threads) (1 record)",
        "Versions": "pspns 0.1.0, torch 2.13.0",
    }


def test_noise_is_told_beside_the_split(tmp_path):
    records = Records(tmp_path / "cells")
    plain = samples.training_record("uniform", "strict")
    records.write("plain", plain)
    made_by = "given; 20 % random false pairs added to train"
    noisy = {
        "data": plain["data"] | {"fingerprint": "noised", "split": made_by},
        "noise": {"share": 0.2, "pairs": 1200},
    }
    records.write("noisy", plain | noisy)
    write_reproduction([], samples.HEADLINE, records.folder, tmp_path / "page.html")
    run = part(Tree((tmp_path / "page.html").read_text(encoding="utf-8")).root, "what-was-run")
    assert sorted(row[-1] for row in rows_under(run, "Data")) == [
        "given",
        f"{made_by}, 1,200 of them",
    ]


def test_loops_are_counted_once_each_however_their_records_tell_them(tmp_path):
    records = Records(tmp_path / "cells")

    def put(name: str, seconds: float, trained_with: list[str], **cell: str) -> None:
        record = samples.training_record("uniform", "strict") | {"seconds": {"training": seconds}}
        record["cell"] = {"method": "uniform", "changes": {}, "trained_with": trained_with} | cell
        records.write(name, record)

    for name in ("a", "b"):
        put(name, 10.0, ["a", "b"])
        put(f"of one file, {name}", 20.0, [], adopted_from="samplers.json")
    put("of another file", 40.0, [], adopted_from="denoisers.json")
    put("alone", 80.0, [])
    write_reproduction([], samples.HEADLINE, records.folder, tmp_path / "page.html")
    page = Tree((tmp_path / "page.html").read_text(encoding="utf-8")).root
    facts = {term.text: words.text for term, words in zip(page.find("dt"), page.find("dd"), strict=True)}
    assert facts["Time of all training"] == "150 s"


def test_verdicts_have_a_tone_for_the_eye_and_their_words_for_the_ear(page):
    rows = rows_under(page, "Claims in words")
    assert rows[0][1] == "✓ holds: all of 40 comparisons"
    better, worse = of_class(page, "verdict")
    for found, tone, word in ((better, "better", "holds"), (worse, "worse", "does not hold")):
        assert tone in found.attributes["class"]
        assert found.find("strong")[0].text == word
        assert found.find("span")[0].attributes["aria-hidden"] == "true"


def test_what_a_verdict_sums_up_stands_one_by_one_and_leads_to_records(page):
    (details,) = of_class(page, "each")
    assert details.find("summary")[0].text == "One by one (2)"
    fails, holds = details.find("li")
    assert fails.text == "✗ does not hold: RNS: 25.00 against 28.51 & <more> record 1 record 2"
    assert holds.text == "✓ holds: DNS: 25.00 against 24.10 record"  # the other one is not there
    ids = [link.attributes["href"] for link in (*fails.find("a"), *holds.find("a"))]
    assert ids == [f"#record-{name}" for name in (samples.STRICT, samples.UNIFORM, samples.STRICT)]


def test_a_short_verdict_is_marked_once(tmp_path):
    page = page_of(section_with(Words("holds", "better"), Number(1, record="r")), folder=tmp_path)
    assert rows_under(page, "Only table") == [["x", "✓ holds", "1.00"]]


def test_the_warning_stands_where_the_test_shaped_something_and_nowhere_else(page):
    assert PUBLISHED.warning in of_class(part(page, "sample"), "warning")[0].text
    assert PUBLISHED.warning in of_class(part(page, "headline"), "warning")[0].text
    assert not of_class(part(page, "plain"), "warning")
    assert "held-out labels" not in part(page, "plain").text
    shaped = part(page, "sample")
    said = "held-out labels shape the candidate set"
    assert all(said in one.text for one in (*of_class(shaped, "block"), *shaped.find("figure")))


def test_parts_that_say_so_have_no_warning_in_a_section_that_has_one(tmp_path):
    table, other = replace(samples.ALL_KINDS, is_shaped_by_test=False), samples.GROUPED
    plot = replace(samples.DOTS, is_shaped_by_test=False)
    empty = Table("empty", "Empty", ("h",), ("c",), ((("x",), (None,)),))
    section = replace(samples.SHAPED, tables=(table, other, empty), plots=(samples.BANDS, plot))
    page = page_of(section, folder=tmp_path)
    assert len(of_class(part(page, "sample"), "warning")) == 1
    said = "held-out labels shape the candidate set"
    anchors = ("table-sample-ml-1m", "table-sample-grouped", "plot-sample-convergence", "plot-sample-dots")
    for anchor, is_warned in zip(anchors, (False, True, True, False), strict=True):
        assert (said in part(page, anchor).text) == is_warned
        csv = of_class(part(page, anchor), "files")[0].find("a")[0].attributes["href"]
        assert (said in base64.b64decode(csv.partition(",")[2]).decode()) == is_warned
    (line,) = [note.text for note in of_class(page, "note") if "no figure yet" in note.text]
    assert line == "There is no figure yet for Empty."


def test_downloads_are_the_tables(page):
    for anchor, table, warning in (
        ("table-sample-ml-1m", samples.ALL_KINDS, PUBLISHED.warning), ("table-sample-claims", samples.CLAIMS, ""),
    ):  # fmt: skip
        csv, latex = of_class(part(page, anchor), "files")[0].find("a")
        assert (csv.attributes["download"], latex.attributes["download"]) == (f"{table.name}.csv", f"{table.name}.tex")
        for link, made in ((csv, table_as_csv), (latex, table_as_latex)):
            content = base64.b64decode(link.attributes["href"].partition(",")[2]).decode()
            assert content == made(table, warning)
    assert len([link for link in page.find("a") if "download" in link.attributes]) == 2 * 3 + 3


def test_a_table_and_a_plot_of_one_name_are_files_of_their_own(tmp_path):
    section = replace(samples.SHAPED, plots=(replace(samples.BANDS, name=samples.ALL_KINDS.name),))
    page = page_of(section, folder=tmp_path)
    files = [link.attributes["download"] for link in page.find("a") if "download" in link.attributes]
    assert {"sample-ml-1m.csv", "sample-ml-1m-plot.csv"} <= set(files)
    assert len(files) == len(set(files))


def test_a_note_that_repeats_is_referred_to(page):
    first, second = part(page, "table-sample-ml-1m:note"), part(page, "table-sample-grouped:note")
    assert first.text.startswith("In percent; ± is the standard deviation over seeds.")
    assert "In percent" not in second.text
    assert "To be read as MovieLens-1M, Recall@20" in second.text
    assert second.find("a")[0].attributes["href"] == "#table-sample-ml-1m:note"


def test_long_notes_of_figures_become_footnotes(tmp_path):
    long = "Cannot be right: `P@20` is a twentieth of R@20."
    cells = (Number(0.74, note=long, record="r"), Number(0.62, note="limit"), Number(1.0, note=long))
    page = page_of(section_with(*cells), folder=tmp_path)
    assert rows_under(page, "Only table") == [["x", "0.74a", "0.62 limit", "1.00a"]]
    assert [note.text for note in of_class(page, "note") if "Cannot" in note.text] == [f"a {long.replace('`', '')}"]


def test_what_is_missing_is_named(page, tmp_path):
    (details,) = part(page, "sample").find("details")
    assert details.find("summary")[0].text == "8 records are missing; what they would show is left empty"
    assert [item.text for item in details.find("li")] == list(samples.SHAPED.missing)
    assert "1 record is missing: claims-epinions. What it would show is left empty." in part(page, "plain").text
    whole = page_of(replace(samples.PLAIN, missing=()), folder=tmp_path)
    assert "missing" not in part(whole, "plain").text


def test_tables_without_a_figure_of_ours_share_a_line(tmp_path):
    (nothing,) = section_with(None, None, note="In percent.").tables
    printed = replace(nothing, name="printed", caption="Printed", rows=((("x",), (Number(26.68), None)),))
    full = replace(nothing, name="full", caption="Full", rows=((("x",), (Number(1, record="r"), None)),))
    page = page_of(Section("one", "One", ("Words.",), (nothing, printed, full)), folder=tmp_path)
    assert "There is no figure yet for Only table; Printed." in part(page, "one").text
    assert [table.find("caption")[0].text for table in part(page, "one").find("table")] == ["Full"]
    assert part(page, "table-full:note").text == "In percent.", "it refers to no table that is not shown"
    assert {"table-only", "table-printed"} <= {one.attributes.get("id") for one in part(page, "one").find("strong")}


def test_without_records_the_page_says_so(tmp_path):
    (tmp_path / "cells").mkdir()
    write_reproduction([samples.PLAIN], samples.HEADLINE, tmp_path / "cells", tmp_path / "page.html")
    page = Tree((tmp_path / "page.html").read_text(encoding="utf-8")).root
    assert "There are none yet." in part(page, "records").text
    assert not part(page, "what-was-run").find("table")


def test_records_that_tell_little_are_no_error(tmp_path):
    records = Records(tmp_path / "cells")
    records.write("bare", {"seconds": {}})
    odd = {"data": "gowalla", "seeds": 3, "steps": None, "seconds": "long", "machine": None, "settings": None}
    records.write("odd", odd)
    strange = {"settings": {"model": {"name": "somewhere:Mine", "size": 3}, "other": {"list": [1, None, True]}}}
    records.write("strange", strange)
    write_reproduction([], samples.HEADLINE, tmp_path / "cells", tmp_path / "page.html")
    page = Tree((tmp_path / "page.html").read_text(encoding="utf-8")).root
    lines = [item.text for item in part(page, "records").find("li")]
    assert lines == [
        "odd.json Measurement.",
        "bare.json Measurement.",
        "strange.json Measurement; model somewhere:Mine: size 3; other: list 1 none yes.",
    ]


def test_links_lead_to_what_is_on_the_page_and_ids_are_unique(page):
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    hrefs = [element.attributes["href"] for element in page.all() if "href" in element.attributes]
    assert {href[1:] for href in hrefs if href.startswith("#")} <= set(ids)
    assert all(href.startswith(("#", "data:", "cells/")) for href in hrefs)
    for element in page.all():
        assert element.attributes.get("aria-labelledby", ids[0]) in ids


def test_names_that_clash_or_are_odd_have_anchors_of_their_own(tmp_path):
    table = replace(samples.CLAIMS, name="my data/50 %.csv")
    twins = [Section("records", "Twins", (), (table, replace(table, caption="Other"))) for _ in range(2)]
    page = page_of(*twins, folder=tmp_path)
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if re.search(r"[\s/%]", name)]
    assert {"records-2", "records-3", "table-my-data-50-.csv-4"} <= set(ids)
    assert of_class(part(page, "records-2"), "files")[0].find("a")[0].attributes["download"] == "my-data-50-.csv.csv"


def test_nothing_is_fetched_and_nothing_runs(page, tmp_path):
    assert not page.find("script", "link", "iframe", "object", "embed", "img")
    for element in page.all():
        assert not [name for name in element.attributes if name.startswith("on") or name == "src"]
    page_of(*samples.SECTIONS, folder=tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//\w|@import", re.sub(r'"data:[^"]*"', "", text))
    assert not re.search(r"url\((?!#)", text)


def test_names_from_outside_are_text(tmp_path):
    hostile = "<script>alert(1)</script> {{ 7 * 7 }} `<b>` **<i>**"
    plot = Plot("p", hostile, hostile, hostile, (Series(hostile, (0.0, 1.0), (1.0, 2.0)),), ticks=(hostile, "x"))
    number = Number(1.0, unit="<u>", note=hostile, record="<s>")
    table = Table("t", hostile, (hostile,), (hostile, hostile), (((hostile,), (number, hostile)),), hostile)
    section = Section(hostile, hostile, (hostile,), (table,), (plot,), missing=(hostile,))
    records = Records(tmp_path / "cells")
    records.write("a & 'b'", {"data": {"source": hostile}, "machine": {"device": hostile}})
    write_reproduction([section], replace(section, name="h"), tmp_path / "cells", tmp_path / "page.html", title=hostile)
    page = Tree((tmp_path / "page.html").read_text(encoding="utf-8")).root
    assert not page.find("script", "b", "i", "u", "s")
    assert page.find("h1")[0].text == hostile
    assert page.find("h2")[0].text == "<script>alert(1)</script> {{ 7 * 7 }} <b> <i>"


def test_it_can_be_read_without_seeing_it(page):
    assert page.find("html")[0].attributes["lang"] == "en"
    assert page.find("title")[0].text == page.find("h1")[0].text == "PSP-NS, reproduced"
    levels = [int(heading.tag[1]) for heading in page.find("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    skip = page.find("a")[0]
    assert (skip.text, skip.attributes["href"]) == ("Skip to the content", "#content")
    assert len(page.find("table")) == 1 + 3
    for table in page.find("table"):
        assert table.find("caption")[0].text
        assert all(head.attributes.get("scope") for head in table.find("th"))
    boxes = of_class(page, "scroll")
    assert [len(box.find("table")) for box in boxes] == [1] * 4
    assert all(box.attributes["tabindex"] == "0" and box.attributes["aria-labelledby"] for box in boxes)
    for figure in page.find("figure"):
        (svg,) = figure.find("svg")
        assert svg.attributes["role"] == "img"
        assert svg.attributes["aria-label"]


def test_the_same_records_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        page_of(*samples.SECTIONS, folder=tmp_path / name)
    assert (tmp_path / "one" / "page.html").read_bytes() == (tmp_path / "two" / "page.html").read_bytes()


def test_what_is_no_record_is_named_and_the_earlier_page_stays(tmp_path):
    page_of(samples.PLAIN, folder=tmp_path)
    before = (tmp_path / "page.html").read_bytes()
    (tmp_path / "cells" / "broken.json").write_text(json.dumps({})[:1])
    with pytest.raises(DataError, match=r"broken\.json.*remove it"):
        write_reproduction([], samples.HEADLINE, tmp_path / "cells", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == before
    with pytest.raises(DataError, match="is no folder of records"):
        write_reproduction([], samples.HEADLINE, tmp_path / "nowhere", tmp_path / "page.html")


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_the_way_to_get_it(missing, tmp_path, monkeypatch):
    for module in ("pspns.report.shown", "pspns.report.plots"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SettingsError, match=rf"needs {missing}.*pip install 'pspns\[report\]'"):
        page_of(samples.PLAIN, folder=tmp_path)
    assert not (tmp_path / "page.html").exists()
