"""Everything README and docs show is run, and every figure they quote is looked up."""

import json
import os
import re
import runpy
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pspns.experiments import reproduction_page, results_page
from pspns.experiments.data_sets import known_data
from pspns.experiments.headline import place_at
from pspns.experiments.on_top import ranking
from pspns.experiments.paper_figures import paper_figures, tried
from pspns.experiments.records import Records, difference, relative
from pspns.experiments.reproduction._claim_checks import more_than_the_svd
from pspns.experiments.reproduction._comparisons import cell_of
from pspns.experiments.reproduction._protocol_section import mask_share

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "python", "toml", "text"}
# `make test` is what runs this, `make demo` has a test of its own, and set-up has happened or nothing would run.
MAKE = re.compile(r"make (test|demo|check|bench|bench-peers|setup|format)\s*")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def test_blocks_say_what_they_are():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("```") == 2 * len(blocks(page)), f"{page.name} has a block without a language"
        assert {language for language, _ in blocks(page)} <= LANGUAGES


def copy_checkout(folder: Path) -> None:
    """As far as a new part has to do with it; with loops that are compiled already, which takes a minute."""
    # Of what other processes are just writing, a copy would find the name and then not the file.
    passing = shutil.ignore_patterns("*.pyc*", "*.tmp*")
    for name in ("pspns", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=passing)
    shutil.copy(ROOT / "pyproject.toml", folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs(page, tmp_path):
    """Blocks of a page run one after the other in one folder; Python blocks share their variables."""
    if page.name == "CONTRIBUTING.md":  # whose blocks add files to the checkout
        copy_checkout(tmp_path)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
    }
    python, n_run = "", 0
    for language, code in blocks(page):
        if language == "sh" and not MAKE.fullmatch(code):
            command = ["bash", "-euo", "pipefail", "-c", code]
        elif language == "python":
            python += code
            command = [sys.executable, "-c", python]
        else:
            continue
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}: block failed\n{code}\n{done.stdout}\n{done.stderr}"
        assert done.stdout or done.stderr
        n_run += 1
    assert n_run or not any(language in ("sh", "python") and not MAKE.fullmatch(c) for language, c in blocks(page))


def test_make_knows_every_command_the_pages_name():
    written = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)(?:`|$)", written, re.MULTILINE))
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test", "check", "help"} <= named <= known


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


RECIPES = ("plain", "paper", "recommended")


def test_the_demo_runs_on_generated_data(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "examples" / "demo.py",
            "--out",
            tmp_path,
            "--data",
            "planted-clustered",
            "--max-steps",
            "60",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    strict, published = done.stdout.split("Test, protocol published")
    for row in ("popular", "svd", "ease", *(f"{m} ({r})" for m in ("mf", "lightgcn") for r in RECIPES)):
        assert f" {row} " in strict
    assert "95 % interval" in strict
    assert "held-out labels shape the candidate set" in published
    assert "held-out labels shape the candidate set" not in strict
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "make demo" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_without_data_or_network_the_demo_takes_a_generated_world(tmp_path, monkeypatch):
    monkeypatch.setenv("PSPNS_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PSPNS_DATA", raising=False)
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    assert demo["choose_data"]("ml-100k") == "planted-low-rank"
    assert demo["choose_data"]("planted-clustered") == "planted-clustered"


def read_record(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_page_of_results_is_what_the_records_give():
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert shown == results_page.page(ROOT / "results"), (
        "run python -m pspns.experiments.results_page results docs/results.md"
    )


def test_the_page_of_the_reproduction_is_what_the_records_give():
    shown = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert shown == reproduction_page.page(ROOT / "results" / "cells", "../results/cells"), (
        "run python -m pspns.experiments.reproduction_page results/cells docs/reproduction.md"
    )


def test_of_every_figure_that_is_far_from_the_papers_it_is_said_what_was_tried():
    figures = paper_figures(Records(ROOT / "results" / "cells"), ["ml-1m", "epinions"])
    far = {(one.data, one.model, one.method) for one in figures if one.is_far}
    assert far
    assert not far - tried().keys()
    assert {(one.data, one.model, one.method) for one in figures} >= tried().keys()


def test_no_choice_hangs_on_the_last_look_that_some_trials_lack():
    """docs/experiments.md says so of trials that were cut from a cell's curve before their limit."""
    records, n_checked = Records(ROOT / "results" / "cells"), 0
    for path in records.folder.glob("trials-*.json"):
        record = records.find(path.stem)
        (first, *_), limit = record["trials"], record["trials"][0]["settings"]["training"]["max_steps"]
        if "beginning_of" not in first or first["steps"] == [limit]:
            continue
        interval, curve = 1635, records.find(first["beginning_of"])["curve_recall@20"]["0"]
        later = [value for step, value in curve if step > limit]
        if not later or first["steps"][0] <= limit - interval:
            continue  # its patience was spent
        if record["chosen"]:
            assert later[0] < max(trial["value"] for trial in record["trials"]), path.stem
        n_checked += 1
    assert n_checked > 10


# The README's rows and columns, and where each cell is taken from.
ROWS = ("popular", "lightgcn`, recipe `plain", "lightgcn`, recipe `paper", "mf`, recipe `plain", "mf`, recipe `paper",
        "svd", "ease")  # fmt: skip
COLUMNS = [
    (data, protocol, mask)
    for data in ("ml-1m", "epinions")
    for protocol, mask in (("strict", None), ("strict", "train"), ("published", None))
]


def test_the_figures_in_the_readme_are_those_of_the_records():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- results:")[1]
    table = table.split("<!-- what helps:")[0]
    n_checked = 0
    for row in ROWS:
        (line,) = re.findall(rf"^\| `{re.escape(row)}`.*$", table, re.MULTILINE)
        for (data, protocol, mask), shown in zip(COLUMNS, line.split("|")[2:-1], strict=True):
            if shown.strip() == "–":
                assert (protocol, row[-5:]) == ("published", "plain")
                continue
            record = record_of(row, protocol, data)
            assert record["protocol"]["name"] == protocol
            figures = record["baselines"].get(row, record)
            test = figures["test_other_masks"][mask] if mask else figures["test"]
            values = [100 * value for value in test["recall@20"]["per_seed"]]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            assert shown.strip() == f"{statistics.mean(values):.2f}{spread}", f"{row} on {data} under {protocol}"
            n_checked += 1
    assert n_checked == 38


def test_the_gains_in_the_readme_are_those_of_the_records():
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    table = said.split("<!-- reproduction:")[1].split("\n\n")[0]
    records = Records(ROOT / "results" / "cells")
    rows = re.findall(r"^\| (.*), `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    assert len(rows) == 6
    titles = {known_data(name).title: name for name in ("ml-1m", "epinions", "pinterest", "yelp2018-part")}
    tuned: dict[tuple[str, str], float | None] = {}
    outcomes: list[str] = []
    n_given_up = 0
    for title, model, cells in rows:
        data = titles[title]
        place = place_at(records, data, model)
        psp, plain = (records.see(cell_of(data, model, method)) for method in ("psp-ns", "uniform"))
        at_defaults = relative(psp.mean("recall@20"), plain.mean("recall@20"))
        assert at_defaults < 0
        assert difference(psp, plain).p_value < 0.05
        n_given_up += model == "lightgcn" and "uniform" in place.given_up
        if place.is_tuned:
            tuned[title, model] = place.gain("strict")
            is_clear = place.tested["psp-ns"].p_value < 0.05
            outcomes.append(("ahead" if place.gain("strict") > 0 else "behind") if is_clear else "not clearly apart")
        share = mask_share(records.find(f"protocol-{data}")).share
        gains = place.printed_gain(), place.gain("published"), at_defaults, tuned.get((title, model))
        expected = ["–" if gain is None else f"{gain:+.1f} %" for gain in gains]
        expected.append(f"{100 * share:.0f} %" if model == "lightgcn" else "–")
        assert [cell.strip() for cell in cells.split("|")] == expected
    n_of = {word: ("none", "one", "two", "three", "four")[outcomes.count(word)] for word in outcomes}
    assert (
        f"it is ahead in {n_of['ahead']} of six, behind in {n_of['behind']} and not clearly apart in "
        f"{n_of['not clearly apart']}"
    ) in " ".join(said.split())
    assert len(outcomes) == 6
    assert n_given_up == 3
    assert "as RNS on three data sets with LightGCN" in " ".join(said.split())
    yelp = place_at(records, "yelp2018-part", "lightgcn").seen["psp-ns", "strict"].mean("recall@20")
    other = read_record("what-helps-lightgcn-yelp2018-part-to-the-end")["members"]["plain"]["test"]["recall@20"]["mean"]
    assert other > yelp
    assert f"it is ahead with {100 * yelp:.2f}, RNS comes to {100 * other:.2f} with settings" in " ".join(said.split())
    assert f"with {place.n_trials} trials on validation for each" in " ".join(said.split())
    ahead = {}
    for protocol in ("strict", "published"):
        found = more_than_the_svd(records, list(titles.values()), protocol).outcomes
        holds = [one.holds for one in found if "Recall@20" in one.what]
        ahead[protocol] = f"{holds.count(False)} of {len(holds)}"
    svd_words = f"in {ahead['strict']} cases under `strict`, and in {ahead['published']} under `published`"
    assert f"The SVD by itself (`svd`) ranks better {svd_words}" in " ".join(said.split())
    figures = [one for one in paper_figures(records, ["ml-1m", "epinions"]) if one.ours is not None]
    near = sum(not one.is_far for one in figures)
    assert f"All {len(figures)} figures that the paper prints of MovieLens-1M and Epinions stand beside ours" in said
    assert f"{near} are within 10 %" in said
    for name, limit in (("ml-1m", "80,000"), ("pinterest", "40,000"), ("yelp2018-part", "40,000")):
        seen = records.find(f"lightgcn-{name}-psp-ns-published")
        steps = seen["settings"]["training"]["max_steps"]
        assert steps in seen["steps"]
        assert f"{steps:,}" == limit
        assert limit in said


def record_of(row: str, protocol: str, data: str) -> dict[str, Any]:
    recipe = row.rpartition("`")[2] if "recipe" in row else "paper"
    if row.startswith("lightgcn"):
        members = read_record(f"protocols-lightgcn-{data}")["members"]
        return members[recipe if protocol == "strict" else f"{recipe}, {protocol}"]
    return read_record(f"{protocol}-mf{'-psp' if recipe == 'paper' else ''}-{data}")


def test_what_helps_in_the_readme_is_what_the_records_say():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- what helps:")[1]
    cells = [(data, model) for data in ("yelp2018-part", "pinterest", "gowalla") for model in ("lightgcn", "mf")]
    for row in ("`plain`", "`recommended`", "`svd`", "`ease`"):
        (line,) = re.findall(rf"^\| {re.escape(row)} \|.*$", table, re.MULTILINE)
        for (data, model), shown in zip(cells, line.split("|")[2:-1], strict=True):
            members = read_record(f"what-helps-{model}-{data}{'-to-the-end' if model == 'lightgcn' else ''}")["members"]
            name = row.split("`")[1]
            figures = members[name] if name in members else members["plain"]["baselines"][name]
            assert shown.strip() == f"{100 * figures['test']['recall@20']['mean']:.2f}", f"{row} on {data}"


def test_what_harder_negatives_do_in_the_readme_is_what_the_records_say():
    said = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    records = Records(ROOT / "results" / "cells")
    harder_helps = ("epinions", "pinterest", "yelp2018-part")
    ml_1m, *others = (ranking(records, data, "lightgcn", "overall") for data in ("ml-1m", *harder_helps))
    of_dns, of_rns = (
        [f"{100 * dict(one.best_first)[name].mean('recall@20'):.2f}" for one in others] for name in ("DNS", "RNS")
    )
    assert [one.best_first[0][0] for one in others] == ["DNS"] * 3
    assert "{} on Epinions, {} on Pinterest and {} on Yelp2018".format(*of_dns) in said
    assert "RNS {}, {} and {}, and nothing else that may be compared is higher".format(*of_rns) in said
    stopped = [records.find(f"lightgcn-{data}-mixgcf-strict") for data in harder_helps[1:]]
    assert all("MixGCF" in one.cut_short for one in others[1:])
    assert all(one["best_step"] == one["steps"] for one in stopped)
    at = [f"{100 * one['test']['recall@20']['mean']:.2f}" for one in stopped]
    assert "still rising on the last two when a lower limit stopped it at {} and {}".format(*at) in said
    dns, rns, ease = (100 * dict(ml_1m.best_first)[name].mean("recall@20") for name in ("DNS", "RNS", "EASE"))
    assert dns < rns
    softer = read_record("hardness-lightgcn-ml-1m-dns-n-4")["members"]["dns, n 4"]["test"]["recall@20"]["mean"]
    assert f"what three trials chose has {dns:.2f} against {rns:.2f}; with 4 candidates" in said
    assert f"all else at its default it has [{100 * softer:.2f}](docs/results.md)" in said
    assert f"`ease` is highest with {ease:.2f}" in said
    for data in ("ml-1m", "epinions"):
        assert ranking(records, data, "mf", "mf").best_first[0][0] == "EASE"
    assert ml_1m.best_first[0][0] == "EASE"
