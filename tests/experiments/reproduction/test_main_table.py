"""The paper's tables of all methods, with LightGCN and with MF."""

import itertools
from dataclasses import dataclass

import pytest
from forged_records import write_forged

from pspns.experiments import published
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_words
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.trials import Trials


@dataclass(frozen=True)
class Case:
    name: str
    model: str
    data: tuple[str, ...]
    n_methods: int
    """With `recommended`."""

    @property
    def experiment(self) -> Experiment:
        return find_experiment(self.name)


CASES = (
    Case("overall", "lightgcn", ("ml-1m", "epinions", "pinterest", "yelp2018-part"), 12),
    Case("mf", "mf", ("ml-1m", "epinions"), 11),
)


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request):
    return request.param


def test_every_method_of_the_paper_and_ours_is_trained_under_both_protocols(case):
    cells = list(case.experiment.cells("epinions"))
    methods = (*published.tables()[case.name].methods, "recommended")
    assert [cell.method for cell in cells if cell.protocol == "strict"] == list(methods)
    assert len(methods) == case.n_methods
    assert [cell.method for cell in cells if cell.protocol == "published"] == ["psp-ns"]
    assert {(cell.model, cell.data) for cell in cells} == {(case.model, "epinions")}
    assert case.experiment.data == case.data


def test_every_printed_figure_stands_in_its_table(case, tmp_path):
    section = case.experiment.section(Records(tmp_path), case.data)
    table = published.tables()[case.name]
    found = {
        (one.name, heads[0], column): cell
        for one in section.tables
        for heads, cells in one.rows
        for column, cell in zip(one.columns, cells, strict=True)
    }
    for data, method, metric in itertools.product(case.data, table.methods, table.metrics):
        printed = published.printed(case.name, known_data(data).printed_as, case.model, method, metric)
        place = (f"{case.name}-{data}", method_words(method), "paper")
        if metric != "recall@20":
            place = (f"{case.name}-{data}-other-metrics", method_words(method), f"{metric.capitalize()}, paper")
        assert found[place].value == printed
    assert section.is_shaped_by_test
    assert section.name == case.name


def test_what_is_missing_is_what_would_be_trained(case, tmp_path):
    records, data_names = Records(tmp_path), case.data[:2]
    cells = [cell for data in data_names for cell in case.experiment.cells(data)]
    trials = {Trials(cell).name for data in data_names for cell in case.experiment.tuned(data)}
    assert set(case.experiment.section(records, data_names).missing) == {cell.name for cell in cells} | trials
    assert not records.missing
    for cell in cells[1:]:
        write_forged(records, cell)
    section = case.experiment.section(records, data_names)
    assert set(section.missing) == {cells[0].name} | trials
    assert cells[0].method == "uniform"
    strict = [cells[3] for one in section.tables[:1] for _, cells in one.rows]
    assert [cell is None for cell in strict] == [True, *[False] * (case.n_methods - 1), True, True, True]


def test_tables_say_which_data_they_are_of(case, tmp_path):
    for data in case.data:
        tables = case.experiment.section(Records(tmp_path), [data]).tables
        assert [table.name.removeprefix(f"{case.name}-{data}") for table in tables] == ["", "-other-metrics", "-tuned"]
        for table in tables:
            assert table.caption.startswith(known_data(data).title)
            assert known_data(data).note in table.caption


@pytest.mark.parametrize(("name", "begin"), [("overall", "Table 2"), ("mf", "Table 5")])
def test_words_have_the_papers_number_and_what_is_special(name, begin, tmp_path):
    experiment = find_experiment(name)
    (words,) = experiment.section(Records(tmp_path), ["ml-1m"]).words
    assert words.startswith(f"The paper's {begin}")
    assert experiment.shows.startswith(begin)
    assert ("MixGCF is not among them" in words) == (name == "mf")
