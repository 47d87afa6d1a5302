"""The page of results from records made by hand."""

import json
import sys

import pytest

from pspns.experiments import reproduction_page, results_page
from pspns.experiments.results_page import MEMBERS, page


def figure(*values):
    return {"mean": sum(values) / len(values), "per_seed": list(values)}


def judged(*recalls):
    return {"recall@20": figure(*recalls), "precision@20": figure(0.05), "ndcg@20": figure(0.125, 0.125)}


def member(recalls, curve, *, steps, best_step, baselines=(), max_steps=1000):
    groups = ["least_active_1000", *(f"decile_{n}" for n in range(1, 11))]
    return {
        "test": judged(*recalls),
        "test_other_masks": {"train": judged(*recalls)},
        "valid": {"recall@20": figure(max(value for _, value in curve))},
        "steps": [steps],
        "best_step": [best_step],
        "seeds": [0, 1],
        "settings": {"training": {"max_steps": max_steps, "patience": 5}},
        "seconds": {"training": 50.0},
        "machine": {"device": "cpu"},
        "groups": {group: {"test": {"recall@20": number / 100}} for number, group in enumerate(groups)},
        "baselines": {name: {"test": judged(0.3), "test_other_masks": {"train": judged(0.3)}} for name in baselines},
        "curve_recall@20": {"0": curve},
    }


def write(folder, name, members):
    (folder / f"{name}.json").write_text(json.dumps({"members": members}))


def row(text, *words):
    (line,) = [line for line in text.splitlines() if line.startswith("|") and all(word in line for word in words)]
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_what_helps(tmp_path):
    slow = member((0.10, 0.20), [(100, 0.1), (1000, 0.4)], steps=1000, best_step=1000, baselines=("ease",))
    fast = member((0.25, 0.25), [(100, 0.3), (200, 0.5), (300, 0.4)], steps=700, best_step=200)
    write(tmp_path, "what-helps-mf-ml-1m", dict.fromkeys(MEMBERS, slow) | {"recommended": fast})
    text = page(tmp_path)
    assert row(text, "MovieLens-1M", "MF", "`recommended`", "2, cpu") == [
        "MovieLens-1M",
        "MF",
        "`recommended`",
        "25.00 ± 0.00",
        "12.50 ± 0.00",
        "200",
        "200",  # the first look that saw at least 0.4, the best of plain
        "10 of 50",  # 200 of the loop's 1,000 steps
        "2, cpu",
    ]
    assert row(text, "MovieLens-1M", "| `plain` |")[3:8] == [
        "15.00 ± 7.07",
        "12.50 ± 0.00",
        "1,000 **limit**",
        "–",
        "–",
    ]
    assert row(text, "MovieLens-1M", "`ease`")[3] == "30.00"
    assert row(text, "MovieLens-1M", "`recommended`", "| 0.00 |")[3:] == [f"{n}.00" for n in range(11)]


def test_protocols(tmp_path):
    done = member((0.26,), [(100, 0.1)], steps=300, best_step=100, baselines=("popular", "svd", "ease"))
    cut = member((0.39,), [(100, 0.1)], steps=1000, best_step=900, baselines=("popular", "svd", "ease"))
    members = {"plain": done, "paper": done, "paper, published": cut}
    write(tmp_path, "protocols-lightgcn-epinions", members)
    text = page(tmp_path)
    assert row(text, "`plain` (RNS)")[3:] == ["26.00 / 5.00", "26.00 / 5.00", "as mask `train`", "10.93 / 3.20"]
    assert row(text, "`paper` (PSP-NS)")[3:] == [
        "26.00 / 5.00",
        "26.00 / 5.00",
        "39.00 / 5.00 **limit**",
        "13.01 / 4.50",
    ]
    assert row(text, "`svd`")[3:] == ["30.00 / 5.00", "30.00 / 5.00", "30.00 / 5.00", "–"]


def test_samplers(tmp_path):
    alone = member((0.20,), [(100, 0.1)], steps=300, best_step=100)
    strict = member((0.15,), [(100, 0.1)], steps=1000, best_step=900)
    published = member((0.30,), [(100, 0.1)], steps=300, best_step=100)
    names = ("dns", "dns + PSP", "dns + PSP (published)")
    write(tmp_path, "samplers-mf-ml-1m-dns", dict(zip(names, (alone, strict, published), strict=True)))
    longer = member((0.20,), [(100, 0.2), (1001, 0.3)], steps=1500, best_step=1001, max_steps=2000)
    write(tmp_path, "samplers-mf-ml-1m-srns", dict.fromkeys("abc", longer))
    text = page(tmp_path)
    assert row(text, "MF", "`srns`")[3:5] == ["2,000, 5", "20.00"]  # not the 30.00 of later steps than dns had
    assert row(text, "MF", "`dns`")[3:] == [
        "1,000, 5",
        "10.00",
        "20.00 / 5.00",
        "20.00 / 5.00",
        "20.58 / 9.46",
        "15.00 / 5.00 **limit**",
        "30.00 / 5.00",
        "-25.0 %",
        "+50.0 %",
    ]
    assert "`ahns`" not in text  # of which there is no record


def test_hardness(tmp_path):
    tried = member((0.25,), [(100, 0.1)], steps=1000, best_step=900)
    write(tmp_path, "hardness-lightgcn-epinions-one", {"ahns, n 16": tried})
    assert row(page(tmp_path), "| ahns, n 16 |")[3:] == [
        "10.00",
        "25.00 / 5.00 **limit**",
        "25.00 / 5.00 **limit**",
        "11.66 / 3.40",
    ]


@pytest.mark.parametrize(("folder", "reason"), [("nowhere", "is no folder of records"), (".", "there is no record in")])
def test_no_page_is_made_of_no_records(folder, reason, tmp_path, monkeypatch, capsys):
    page_before = tmp_path / "results.md"
    page_before.write_text("an earlier one")
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / folder), str(page_before)])
    for command in (results_page, reproduction_page):
        with pytest.raises(SystemExit):
            command.main()
        assert reason in capsys.readouterr().err
    assert page_before.read_text() == "an earlier one"
