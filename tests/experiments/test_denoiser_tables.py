"""The tables of denoisers from records made by hand."""

import json

import pytest

from pspns.experiments._denoiser_tables import denoiser_tables


def figure(*values):
    return {"mean": sum(values) / len(values), "per_seed": list(values)}


def member(recall, masked, *, kept=None, baselines=()):
    def judged(value):
        return {"recall@20": figure(value, value), "precision@20": figure(value / 2)}

    found = {
        "valid": {"recall@20": figure(0.3, 0.3)},
        "test": judged(recall),
        "test_other_masks": {"train": judged(masked)},
        "settings": {"data": {"noise": 0.2}, "training": {"max_steps": 1000, "patience": 5}},
        "steps": [700, 1000],
        "baselines": {name: {"test": judged(0.4), "test_other_masks": {"train": judged(0.35)}} for name in baselines},
    }
    return found | ({"curve_kept": {"0": [[100, {}], [200, kept]], "1": [[200, kept]]}} if kept else {})


def row(lines, *words):
    (line,) = [line for line in lines if line.startswith("|") and all(word in line for word in words)]
    return [cell.strip() for cell in line.split("|")[1:-1]]


def write(folder, name, content):
    (folder / f"{name}.json").write_text(json.dumps(content))


def test_without_records_there_is_nothing(tmp_path):
    assert list(denoiser_tables(tmp_path)) == []


def test_beside_plain_training_and_the_paper(tmp_path):
    write(tmp_path, "denoisers-lightgcn-ml-1m-none", {"members": {"none": member(0.25, 0.2)}})
    half = {"t-ce": member(0.2, 0.15, kept={"all": 0.5})}
    write(tmp_path, "denoisers-lightgcn-ml-1m-t-ce", {"members": half})
    lines = list(denoiser_tables(tmp_path))
    assert row(lines, "`t-ce`") == [
        "MovieLens-1M", "LightGCN", "`t-ce`", "1,000, 5", "30.00 ± 0.00", "20.00 ± 0.00 / 10.00 **limit**", "-20.0 %",
        "15.00 ± 0.00 / 7.50 **limit**", "23.56 / 11.93", "0.50",
    ]  # fmt: skip
    # Plain training is the paper's RNS.
    assert row(lines, "`none`")[6:] == ["–", "20.00 ± 0.00 / 10.00 **limit**", "26.68 / 12.54", "–"]


def test_with_noise(tmp_path):
    members = {
        "plain": member(0.2, 0.15, baselines=("ease",)),
        "plain (published)": member(0.3, 0.3),
        "dcf": member(0.21, 0.16, kept={"true": 0.9, "false": 0.4}),
    }
    write(tmp_path, "noise-mf-epinions", {"members": members})
    lines = list(denoiser_tables(tmp_path))
    assert row(lines, "`dcf`")[2] == "0.2"
    assert row(lines, "`dcf`")[6:] == ["+5.0 %", "16.00 ± 0.00 / 8.00 **limit**", "–", "0.90 / 0.40"]
    assert row(lines, "`plain`")[8] == "30.00 ± 0.00 / 15.00 **limit**"
    assert row(lines, "`ease`")[5] == "40.00 ± 0.00 / 20.00"
    assert not any("(published)" in line for line in lines)


def test_planted(tmp_path):
    methods = {"pld": {"accuracy": [0.8, 0.9], "coverage": [0.1, 0.1], "test_recall@20": [0.25, 0.35]}}
    found = {"builders": {"psp": {"accuracy": 0.75, "coverage": 0.2}}, "denoisers": {"mf": methods}}
    write(tmp_path, "planted-truth", {"worlds": {"planted-clustered": found}})
    lines = list(denoiser_tables(tmp_path))
    assert row(lines, "`psp`") == ["planted-clustered", "–", "`psp`", "75.00", "20.00", "–"]
    assert row(lines, "`pld`")[3:] == ["85.00 ± 7.07", "10.00 ± 0.00", "30.00 ± 7.07"]


@pytest.mark.parametrize("experiment", ["denoisers", "noise"])
def test_each_table_comes_without_the_others(tmp_path, experiment):
    write(tmp_path, f"{experiment}-mf-ml-1m", {"members": {"plain": member(0.2, 0.2)}})
    assert sum(line.startswith("|---") for line in denoiser_tables(tmp_path)) == 1


def test_two_records_of_the_same_member_do_not_hide_each_other(tmp_path):
    for name in ("noise-mf-ml-1m", "noise-mf-ml-1m-again"):
        write(tmp_path, name, {"members": {"plain": member(0.2, 0.2)}})
    with pytest.raises(AssertionError, match="another record has the same members"):
        list(denoiser_tables(tmp_path))
