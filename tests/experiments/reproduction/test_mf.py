"""The paper's table of all methods with MF."""

import itertools

import pytest
from forged_records import write_forged

from pspns.experiments import published
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.trials import Trials

EXPERIMENT = find_experiment("mf")
DATA = ("ml-1m", "epinions")


def test_every_method_of_the_paper_and_ours_is_trained_under_both_protocols():
    cells = list(EXPERIMENT.cells("epinions"))
    methods = (*published.tables()["mf"].methods, "recommended")
    assert [cell.method for cell in cells if cell.protocol == "strict"] == list(methods)
    assert len(methods) == 11
    assert [cell.method for cell in cells if cell.protocol == "published"] == ["psp-ns"]
    assert {(cell.model, cell.data) for cell in cells} == {("mf", "epinions")}
    assert EXPERIMENT.data == DATA


def test_every_printed_figure_stands_in_its_table(tmp_path):
    section = EXPERIMENT.section(Records(tmp_path), DATA)
    table = published.tables()["mf"]
    found = {
        (one.name, heads[0], column): cell
        for one in section.tables
        for heads, cells in one.rows
        for column, cell in zip(one.columns, cells, strict=True)
    }
    for data, method, metric in itertools.product(DATA, table.methods, table.metrics):
        printed = published.printed("mf", known_data(data).printed_as, "mf", method, metric)
        place = (f"mf-{data}", method_words(method), "paper")
        if metric != "recall@20":
            place = (f"mf-{data}-other-metrics", method_words(method), f"{metric.capitalize()}, paper")
        assert found[place].value == printed
    assert section.is_shaped_by_test


def test_what_is_missing_is_what_would_be_trained(tmp_path):
    records = Records(tmp_path)
    cells = [cell for data in DATA[:2] for cell in EXPERIMENT.cells(data)]
    trials = {Trials(cell).name for data in DATA[:2] for cell in EXPERIMENT.tuned(data)}
    assert set(EXPERIMENT.section(records, DATA[:2]).missing) == {cell.name for cell in cells} | trials
    assert not records.missing
    for cell in cells[1:]:
        write_forged(records, cell)
    section = EXPERIMENT.section(records, DATA[:2])
    assert set(section.missing) == {cells[0].name} | trials
    assert cells[0].method == "uniform"
    strict = [cells[3] for one in section.tables[:1] for _, cells in one.rows]
    assert [cell is None for cell in strict] == [True, *[False] * 10, True, True, True]


@pytest.mark.parametrize("data", DATA)
def test_tables_say_which_data_they_are_of(data, tmp_path):
    for table in EXPERIMENT.section(Records(tmp_path), [data]).tables:
        assert table.caption.startswith(known_data(data).title)
        assert known_data(data).note in table.caption
