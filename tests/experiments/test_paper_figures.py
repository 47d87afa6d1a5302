"""Printed figures beside ours."""

import pytest
from handmade_records import put

from pspns.experiments import paper_figures as module
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.methods import method_names
from pspns.experiments.paper_figures import figures_table, paper_figures, same_as_paper, tried
from pspns.experiments.records import Records

DATA = ["ml-1m", "epinions", "pinterest", "yelp2018-part", "ml-1m-by-user", "gowalla"]


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path)


def found(records, method, metric="recall@20", *, data="ml-1m", model="lightgcn", users="all"):
    (figure,) = [
        one
        for one in paper_figures(records, DATA)
        if (one.method, one.metric, one.data, one.model, one.users) == (method, metric, data, model, users)
    ]
    return figure


def test_only_what_is_the_paper_s_own_data_is_held_against_its_figures():
    assert same_as_paper(DATA) == ["ml-1m", "epinions"]


def test_every_printed_figure_is_there_once(records):
    # Of each data set: 11 methods × 3 and PSP-NS and RNS again with Precision@30; 8 further variants × 4; two groups of
    # two methods × 2; 10 methods × 4 with MF.
    of_each = 11 * 3 + 2 + 8 * 4 + 2 * 2 * 2 + 10 * 4
    figures = paper_figures(records, DATA)
    assert len(figures) == len(set(figures)) == 2 * of_each
    assert all(one.ours is None and one.percent is None and not one.is_far for one in figures)


def test_ours_is_that_of_published_and_its_distance_in_percent_of_what_is_printed(records):
    put(records, "psp-ns", 0.5)
    name = put(
        records,
        "psp-ns",
        0.3956 * 1.05,
        protocol="published",
        inactive={"recall@20": 0.4297 * 1.2, "precision@20": 0.1},
    )
    put(records, "uniform", 0.9, masked=0.2668 * 0.89)
    ours = found(records, "psp-ns")
    assert (ours.printed, ours.record) == (39.56, name)
    assert ours.percent == pytest.approx(5)
    assert not ours.is_far
    plain = found(records, "uniform")
    assert plain.percent == pytest.approx(-11)
    assert plain.is_far
    assert found(records, "psp-ns", users="inactive").percent == pytest.approx(20)


def test_psp_is_that_whose_settings_validation_chose_if_there_were_trials(records):
    cell = Cell("ml-1m", "lightgcn", "psp-ns", "published")
    put(records, "psp-ns", 0.3, protocol="published")
    records.write(f"trials-{cell.name}", {"trials": [], "chosen": {"positives.rank": 30}})
    tuned = put(records, "psp-ns", 0.4, protocol="published", changes=(("positives.rank", 30),))
    put(records, "uniform", 0.2)
    assert found(records, "psp-ns").record == tuned
    measured = [one for one in paper_figures(records, DATA) if one.ours is not None]
    shown = {heads[2]: cells[1] for heads, cells in figures_table("name", "", measured).rows}
    assert (str(shown["PSP-NS"]), str(shown["RNS"])) == ("40.00 tuned", "20.00")


def test_psp_at_its_defaults_is_not_called_tuned_though_trials_chose_them(records):
    records.write("trials-lightgcn-ml-1m-psp-ns-published", {"trials": [], "chosen": {}})
    put(records, "psp-ns", 0.3, protocol="published")
    assert not found(records, "psp-ns").is_tuned


def test_the_table_says_what_was_tried(records, monkeypatch):
    put(records, "dns", 0.1)
    put(records, "mixgcf", 0.1)
    monkeypatch.setattr(module, "tried", lambda: {("ml-1m", "lightgcn", "dns"): "fewer candidates"})
    far = [one for one in paper_figures(records, DATA) if one.is_far and one.metric == "recall@20"]
    table = figures_table("beyond", "Beyond", far, records)
    assert [(heads[2], str(cells[2]), cells[4]) for heads, cells in table.rows] == [
        ("DNS", "-61.8 %", "fewer candidates"),
        ("MixGCF", "-63.7 %", "nothing yet"),
    ]


def test_what_was_tried_is_told_of_methods_that_there_are():
    for data, model, method in tried():
        assert data in published.data_sets()
        assert model in ("lightgcn", "mf")
        assert method in method_names()
