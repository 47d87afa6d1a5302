"""The document of the reproduction, from records made by hand."""

import re
import sys

import numpy as np
import pytest
from handmade_records import put

from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments import reproduction_page
from pspns.experiments.paper_figures import tried
from pspns.experiments.records import Records
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.experiments.reproduction_page import page


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "results" / "cells")


def lines(text, *words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_an_empty_folder_gives_a_document_that_says_so(records):
    text = page(records.folder, "../results/cells")
    assert text.startswith("# The paper, reproduced\n")
    for name in experiment_names():
        assert f"\n## {find_experiment(name).title}\n" in text
    assert "ours under\n`published` have no record yet" in text or "`published` have no record yet" in text
    assert "0 of them have a record under `published`" in text.replace("\n", " ")
    (overall,) = lines(text, "| overall |")
    assert re.fullmatch(r"\| overall \| \d+ \| lightgcn-ml-1m-uniform-strict \|", overall)
    assert "](../results/cells/" not in text


def test_figures_lead_to_records_that_are_there(records):
    hits = np.r_[np.full(20, 3), np.zeros(20, int)]
    put(records, "uniform", 0.5, masked=0.2668, hits=hits, baselines={"ease": 0.5})
    put(records, "psp-ns", 0.6, protocol="published", hits=hits)
    text = page(records.folder, "../results/cells")
    targets = set(re.findall(r"\]\(\.\./results/cells/([^)]+)\)", text))
    assert targets == {"lightgcn-ml-1m-uniform-strict.json", "lightgcn-ml-1m-psp-ns-published.json"}
    # 60.00 against the 39.56 that is printed
    beyond = text[text.index("**Printed figures from which ours are") : text.index("**All that have a record")]
    (row,) = lines(beyond, "| PSP-NS | Recall@20 |", "LightGCN")
    link = "(../results/cells/lightgcn-ml-1m-psp-ns-published.json)"
    what = tried()["ml-1m", "lightgcn", "psp-ns"]
    figures = f"39.56 | [60.00]{link} | [+51.7 %]{link} | –"
    assert row == f"| MovieLens-1M | LightGCN | PSP-NS | Recall@20 | {figures} | {what} |"
    assert lines(beyond, "| RNS | Recall@20 |") == []
    assert len(lines(text, "| MovieLens-1M | LightGCN | RNS | Recall@20 |", "[26.68]")) == 1


def test_the_warning_stands_in_every_section_whose_figures_the_test_shaped(records):
    text = page(records.folder, "cells").replace("\n> ", " ")
    shaped = [name for name in experiment_names() if find_experiment(name).section(records, ()).is_shaped_by_test]
    assert text.count(PUBLISHED.warning) == 2 + len(shaped)  # the headline and all figures, too


def test_what_is_missing_is_counted_once(records):
    text = page(records.folder, "cells")
    missing = {name: find_experiment(name) for name in experiment_names()}
    names = {one for found in missing.values() for one in found.section(records, found.data).missing}
    assert f"{len(names):,} records are not there yet" in text
    assert text.count("|") < 60_000


def test_the_program_writes_the_document(records, tmp_path, monkeypatch, capsys):
    out = tmp_path / "docs" / "reproduction.md"
    out.parent.mkdir()
    put(records, "uniform", 0.5)
    monkeypatch.setattr(sys, "argv", ["reproduction_page", str(records.folder), str(out)])
    reproduction_page.main()
    assert capsys.readouterr().out == f"wrote {out}\n"
    text = out.read_text(encoding="utf-8")
    (target,) = set(re.findall(r"\]\(([^)]+uniform-strict\.json)\)", text))
    assert (out.parent / target).resolve() == (records.folder / "lightgcn-ml-1m-uniform-strict.json").resolve()
    assert "[../results/cells](../results/cells)" in text
