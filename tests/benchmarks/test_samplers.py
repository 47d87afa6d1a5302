"""The benchmarks of samplers on tiny data: choices are compared before steps are timed, and figures set beside."""

import json
import sys

import pytest
from toy import given_split

from benchmarks import sampler_anchors, samplers
from pspns.components import part_names
from pspns.data.arrays import write_arrays
from pspns.negatives.dns import DynamicSampler


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs one of the two on toy data; gives the rows of the record it writes."""

    def carry_out(program, data_name, record, *options):
        write_arrays(given_split(150, 120, 1500), tmp_path / f"{data_name}.npz")
        words = ["--data", tmp_path / f"{data_name}.npz", "--device", "cpu", "--out", tmp_path, *options]
        monkeypatch.setattr(sys, "argv", [program.__name__, *map(str, words)])
        program.main()
        return json.loads((tmp_path / f"{record}.json").read_text())["results"]

    return carry_out


def test_every_sampler_is_timed_beside_uniform(call):
    rows = call(samplers, "toy", "samplers-cpu", "--models", "mf", "--steps", 2, "--rounds", 1)
    assert [row["negatives"] for row in rows] == part_names("negatives")
    assert all(float(row["ms a step"]) > 0 for row in rows)
    assert {row["negatives"]: row["beside uniform"] for row in rows}["uniform"] == "1.00"


def test_another_choice_is_not_timed(call, monkeypatch):
    chosen = DynamicSampler.sample

    def first_of_pool(sampler, batch, model):
        return type(chosen(sampler, batch, model))(items=sampler._pool(batch)[..., 0])

    monkeypatch.setattr(DynamicSampler, "sample", first_of_pool)
    with pytest.raises(AssertionError, match="choose differently"):
        call(samplers, "toy", "samplers-cpu", "--models", "mf", "--steps", 2, "--rounds", 1)


def test_anchors_are_set_beside_published_figures(call, monkeypatch):
    monkeypatch.setitem(sampler_anchors.ANCHORS, "toy", [("mf", {"name": "dns", "candidates": 2}, 0.001, 0.5, 0.05)])
    recall, ndcg = call(sampler_anchors, "toy", "sampler-anchors", "--seeds", 2)
    assert (recall["metric"], recall["published"]) == ("recall@20", 0.001)
    assert recall["within"] == "5 %: missed"
    difference = 100 * (float(recall["found"]) / 0.001 - 1)
    assert float(recall["difference"].removesuffix(" %")) == pytest.approx(difference, abs=5)  # of rounded figures
    assert (ndcg["metric"], ndcg["within"]) == ("ndcg@20", None)
    assert len(recall["best epochs"].split()) == 2
