"""The least active users, the others, and tenths of all users."""

import pytest
from forged_records import HELD_OUT, N_INACTIVE, N_USERS, forged_hits, write_forged

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment

EXPERIMENT = find_experiment("inactive")
CHANCES = {"uniform": 0.3, "recommended": 0.5, "psp": 0.4, "psp-ns": 0.45}


def cell(method, protocol="strict", data="ml-1m"):
    return Cell(data, "lightgcn", method, protocol)


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path)
    for one in EXPERIMENT.cells("ml-1m"):
        write_forged(found, one, chance=CHANCES[one.method])
    return found


def rows(table):
    return {heads: dict(zip(table.columns, cells, strict=True)) for heads, cells in table.rows}


def recalls(which):
    return 100 * forged_hits(which, chance=CHANCES[which.method]) / HELD_OUT


def test_each_figure_is_the_mean_over_its_group(records):
    table, _ = EXPERIMENT.section(records, ["ml-1m"]).tables
    found = rows(table)
    parts = {"10 least active": slice(0, N_INACTIVE), "others": slice(N_INACTIVE, N_USERS)}
    assert list(found) == [(users, row) for users in parts for row in ("W-ew", "PSP-NS", "gain")]
    for users, inside in parts.items():
        for protocol in ("published", "strict"):
            means = {method: recalls(cell(method, protocol))[:, inside].mean() for method in ("psp", "psp-ns")}
            assert found[users, "W-ew"][f"Recall@20, {protocol}"].value == pytest.approx(means["psp"])
            assert found[users, "PSP-NS"][f"Recall@20, {protocol}"].value == pytest.approx(means["psp-ns"])
            gain = found[users, "gain"][f"Recall@20, {protocol}"]
            assert gain.value == pytest.approx(means["psp-ns"] - means["psp"])
            assert gain.record == cell("psp-ns", protocol).name
        hits = forged_hits(cell("psp"), chance=0.4)[:, inside]
        assert found[users, "W-ew"]["Precision@20, strict"].value == pytest.approx(100 * hits.mean() / 20)


def test_printed_figures_stand_beside_ours(records):
    table, _ = EXPERIMENT.section(records, ["ml-1m"]).tables
    found = rows(table)
    inactive, others = found["10 least active", "PSP-NS"], found["others", "PSP-NS"]
    assert (inactive["Recall@20, paper"].value, inactive["Precision@20, paper"].value) == (42.97, 3.98)
    assert (others["Recall@20, paper"].value, others["Precision@20, paper"].value) == (38.66, 24.75)
    assert found["10 least active", "gain"]["Recall@20, paper"].value == pytest.approx(42.97 - 42.18)
    ours = inactive["Recall@20, published"].value
    assert inactive["Recall@20, difference"].value == pytest.approx(100 * (ours / 42.97 - 1))
    assert found["others", "gain"]["Recall@20, difference"] is None


@pytest.mark.parametrize("data", ["ml-1m", "epinions", "pinterest", "yelp2018-part"])
def test_figures_that_cannot_be_right_say_why_and_no_others(data, tmp_path):
    table, _ = EXPERIMENT.section(Records(tmp_path), [data]).tables
    notes = {
        (note.method, note.metric): note.note
        for note in published.tables()["inactive-users"].notes
        if note.data == data.partition("2018")[0]
    }
    assert notes
    names = {"W-ew": "psp", "PSP-NS": "psp-ns"}
    for (users, row), cells in rows(table).items():
        for metric in ("recall@20", "precision@20") if row in names else ():
            printed = cells[f"{metric.capitalize()}, paper"]
            assert printed.note == notes.get((names[row], metric), "")
        assert users in ("1,000 least active", "others")


def test_tenths_stand_in_a_table_and_in_plots_of_one_protocol_each(records):
    section = EXPERIMENT.section(records, ["ml-1m"])
    found = rows(section.tables[1])
    assert list(found) == [(str(number),) for number in range(1, 11)]
    for number in range(10):
        row, inside = found[(str(number + 1),)], slice(4 * number, 4 * number + 4)
        assert row["users"].value == 4
        assert row["mean pairs in train"].value == pytest.approx(4 * number + 1.5)
        assert row["RNS, strict"].value == pytest.approx(recalls(cell("uniform"))[:, inside].mean())
        of_psp = recalls(cell("psp-ns", "published"))[:, inside].mean()
        assert row["PSP-NS, published"].value == pytest.approx(of_psp)
    labels = {plot.name: [series.label for series in plot.series] for plot in section.plots}
    assert labels == {
        "inactive-ml-1m-published": ["W-ew", "PSP-NS"],
        "inactive-ml-1m-strict": ["W-ew", "PSP-NS", "RNS", "recommended"],
    }
    for plot in section.plots:
        assert plot.from_zero
        assert plot.is_shaped_by_test == plot.name.endswith("published")
        for series in plot.series:
            protocol = plot.name.rpartition("-")[2]
            assert series.xs == tuple(range(1, 11))
            column = [found[(str(number),)][f"{series.label}, {protocol}"].value for number in range(1, 11)]
            assert series.ys == pytest.approx(column)


def test_a_tenth_of_whom_nobody_is_judged_is_a_gap(records):
    record = records.find(cell("psp").name)
    record["groups"]["decile_3"] |= {"users": 0, "test": {}}
    records.write(cell("psp").name, record)
    section = EXPERIMENT.section(records, ["ml-1m"])
    assert rows(section.tables[1])["3",]["W-ew, strict"] is None
    series = {one.label: one for one in section.plots[1].series}
    assert series["W-ew"].xs == (1, 2, *range(4, 11))
    assert len(series["PSP-NS"].xs) == 10


def test_what_is_missing_is_what_would_be_trained(records, tmp_path):
    none = EXPERIMENT.section(Records(tmp_path / "none"), ["ml-1m"])
    assert set(none.missing) == {one.name for one in EXPERIMENT.cells("ml-1m")}
    assert not none.plots
    assert not EXPERIMENT.section(records, ["ml-1m"]).missing
    assert [(one.method, one.protocol) for one in EXPERIMENT.cells("d")] == [
        ("psp", "strict"),
        ("psp", "published"),
        ("psp-ns", "strict"),
        ("psp-ns", "published"),
        ("uniform", "strict"),
        ("recommended", "strict"),
    ]
