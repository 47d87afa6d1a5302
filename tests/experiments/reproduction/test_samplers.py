"""Samplers alone and with PSP."""

import numpy as np
import pytest
from forged_records import HELD_OUT, N_SEEDS, forged_hits, write_forged

from pspns.evaluation.significance import bootstrap_interval, holm, sign_flip_p_value
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.methods import method_words, with_psp
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.reproduction.samplers import SAMPLERS

EXPERIMENT = find_experiment("samplers")


def cell(method, protocol="strict"):
    return Cell("epinions", "lightgcn", method, protocol)


def chance(which):
    return 0.4 if which.method.endswith("psp") else 0.3


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path)
    for one in EXPERIMENT.cells("epinions"):
        write_forged(found, one, chance=chance(one))
    return found


def recalls(which, mask="own"):
    return forged_hits(which, mask=mask, chance=chance(which)).mean(axis=0) / HELD_OUT


def rows(table):
    return {heads: dict(zip(table.columns, cells, strict=True)) for heads, cells in table.rows}


def test_the_papers_samplers_come_first_and_the_others_are_ours(records):
    (table,) = EXPERIMENT.section(records, ["epinions"]).tables
    assert SAMPLERS == ("dns", "mixgcf", "ahns", "uniform", "dns-m-n")
    found = list(rows(table))
    assert found[:3] == [("DNS", "paper"), ("MixGCF", "paper"), ("AHNS", "paper")]
    assert [name for name, _ in found] == [method_words(sampler) for sampler in SAMPLERS]
    assert {by for _, by in found[3:]} == {"ours"}


def test_every_sampler_is_trained_alone_and_with_psp_under_both_protocols(records):
    cells = list(EXPERIMENT.cells("epinions"))
    assert len(set(cells)) == 5 + 2 * 5
    for sampler in SAMPLERS:
        assert {cell(sampler), cell(with_psp(sampler)), cell(with_psp(sampler), "published")} <= set(cells)
    assert not EXPERIMENT.section(records, ["epinions"]).missing
    missing = EXPERIMENT.section(Records(records.folder / "none"), ["epinions"]).missing
    assert set(missing) == {one.name for one in cells}


def test_lifts_are_those_of_the_records(records):
    (table,) = EXPERIMENT.section(records, ["epinions"]).tables
    found = rows(table)
    lifts, p_values = {}, []
    for sampler in SAMPLERS:
        lifts[sampler] = recalls(cell(with_psp(sampler))) - recalls(cell(sampler))
        p_values.append(sign_flip_p_value(lifts[sampler], rng=np.random.default_rng(0)))
    corrected = dict(zip(SAMPLERS, holm(p_values).tolist(), strict=True))
    assert corrected != dict(zip(SAMPLERS, p_values, strict=True))
    for sampler, by_user in lifts.items():
        row = found[method_words(sampler), "paper" if sampler in SAMPLERS[:3] else "ours"]
        assert row["alone, strict"].value == pytest.approx(100 * recalls(cell(sampler)).mean())
        assert row["with PSP, strict"].value == pytest.approx(100 * recalls(cell(with_psp(sampler))).mean())
        assert row["lift, strict"].value == pytest.approx(100 * by_user.mean())
        assert row["lift, strict"].record == cell(with_psp(sampler)).name
        interval = bootstrap_interval(100 * by_user, rng=np.random.default_rng(0))
        assert (row["lift, strict"].low, row["lift, strict"].high) == pytest.approx(interval)
        p = corrected[sampler]
        assert row["p"] == ("< 0.001" if p < 0.001 else f"{p:.3f}")
        alone, with_pairs = recalls(cell(sampler), "train"), recalls(cell(with_psp(sampler), "published"))
        assert row["alone, published"].value == pytest.approx(100 * alone.mean())
        assert row["with PSP, published"].value == pytest.approx(100 * with_pairs.mean())
        assert row["lift, published"].value == pytest.approx(100 * (with_pairs.mean() / alone.mean() - 1))
        assert str(row["lift, published"]).endswith(" %")


def test_uniform_with_psp_is_psp_ns_and_not_trained_twice(records):
    (table,) = EXPERIMENT.section(records, ["epinions"]).tables
    row = rows(table)["RNS", "ours"]
    assert row["with PSP, strict"].record == "lightgcn-epinions-psp-ns-strict"
    assert N_SEEDS == 3
    assert row["with PSP, strict"].spread is not None


def test_the_plot_has_a_dot_and_an_interval_for_every_lift(records):
    (plot,) = EXPERIMENT.section(records, ["epinions"]).plots
    assert not plot.joined
    assert plot.ticks == tuple(map(method_words, SAMPLERS))
    assert [series.label for series in plot.series] == ["published", "strict"]
    for series in plot.series:
        assert series.xs == tuple(range(5))
        assert all(low < y < high for low, y, high in zip(series.lows, series.ys, series.highs, strict=True))
    strict = [100 * (recalls(cell(with_psp(one))) - recalls(cell(one))).mean() for one in SAMPLERS]
    assert plot.series[1].ys == pytest.approx(strict)
    masked = [
        100 * (recalls(cell(with_psp(one), "published")) - recalls(cell(one), "train")).mean() for one in SAMPLERS
    ]
    assert plot.series[0].ys == pytest.approx(masked)


def test_what_is_missing_leaves_gaps(tmp_path):
    records = Records(tmp_path)
    for one in (cell("mixgcf"), cell("mixgcf-psp"), cell("dns")):
        write_forged(records, one)
    section = EXPERIMENT.section(records, ["epinions"])
    found = rows(section.tables[0])
    assert found["MixGCF", "paper"]["lift, strict"] is not None
    assert found["MixGCF", "paper"]["lift, published"] is None
    assert found["DNS", "paper"]["alone, strict"] is not None
    assert found["DNS", "paper"]["lift, strict"] is None
    (series,) = section.plots[0].series
    assert (series.label, series.xs) == ("strict", (1.0,))
    assert not EXPERIMENT.section(Records(tmp_path / "none"), ["epinions"]).plots


def test_a_sampler_that_finds_nothing_has_no_lift_in_percent(tmp_path):
    records = Records(tmp_path)
    write_forged(records, cell("dns"), chance=0.0)
    write_forged(records, cell("dns-psp", "published"))
    row = rows(EXPERIMENT.section(records, ["epinions"]).tables[0])["DNS", "paper"]
    assert row["alone, published"].value == 0
    assert row["lift, published"] is None


def test_words_name_the_picture_as_the_paper_does(records):
    section = EXPERIMENT.section(records, ["epinions"])
    claim = published.claims()["lifts-samplers"]
    assert claim.number in section.words[0]
    assert claim.called in section.words[0]
    assert section.is_shaped_by_test
