"""Cells: what is trained under which name."""

import pytest

from pspns.components import find_part
from pspns.data.settings import DataSettings
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.positives.psp import PspPositives
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings
from pspns.weightings.log import LogWeighting

TERMS = Terms(max_steps=70, patience=4, seeds=2, device="cpu", precision="mixed")


def test_the_settings_of_a_cell_are_its_methods_with_its_changes():
    cell = Cell("epinions", "lightgcn", "dns-psp", "published", (("positives.rank", 7), ("training.l2", 0.5)))
    assert cell.settings(TERMS, "from here") == Settings(
        data=DataSettings(source="from here"),
        positives=PspPositives(rank=7),
        weighting=LogWeighting(),
        negatives=find_part("negatives", "dns")(),
        model=find_part("models", "lightgcn")(),
        training=TrainingSettings(max_steps=70, patience=4, precision="mixed", l2=0.5),
        run=RunSettings(protocol="published", seeds=(0, 1), device="cpu", baselines=False),
    )


def test_a_recipe_keeps_what_the_terms_do_not_set():
    settings = Cell("epinions", "mf", "recommended").settings(TERMS, "epinions")
    assert (settings.training.learning_rate, settings.training.max_steps) == (0.002, 70)
    assert settings.positives.times_root_degree


def test_a_change_of_the_cell_is_stronger_than_one_of_the_terms():
    terms = Terms(changes=(("model.embedding_size", 8), ("evaluation.inactive", 5)))
    cell = Cell("epinions", "mf", "uniform", changes=(("model.embedding_size", 16),))
    settings = cell.settings(terms, "epinions")
    assert settings.model.embedding_size == 16
    assert settings.evaluation == EvaluationSettings(inactive=5)


def test_another_part_takes_the_place_of_a_whole_section():
    cell = Cell("epinions", "mf", "recommended", changes=(("start.name", "xavier"), ("positives.rank", 9)))
    settings = cell.settings(TERMS, "epinions")
    assert settings.start == find_part("starts", "xavier")()
    assert (settings.positives.rank, settings.positives.copies) == (9, 3)


def test_a_fixed_number_of_steps_is_no_more_than_all_may_take():
    for steps, expected in ((50, 50), (500, 70)):
        cell = Cell("epinions", "mf", "uniform", changes=(("training.steps", steps),))
        assert cell.settings(TERMS, "epinions").training.steps == expected


@pytest.mark.parametrize(
    ("cell", "n_seeds"),
    [
        (Cell("d", "mf", "uniform"), 10),
        (Cell("d", "mf", "psp-ns", "published"), 10),
        (Cell("d", "mf", "psp-ns", changes=(("positives.rank", 9),)), 3),
        (Cell("d", "mf", "dns"), 3),
        (Cell("d", "mf", "recommended"), 3),
    ],
)
def test_the_methods_of_the_headline_have_more_seeds_and_baselines_beside_them(cell, n_seeds):
    run = cell.settings(Terms(), "d").run
    assert run.seeds == tuple(range(n_seeds))
    assert run.baselines == (n_seeds == 10)
    assert cell.settings(Terms(seeds=5), "d").run.seeds == (0, 1, 2, 3, 4)


def test_names_tell_every_field():
    cell = Cell("ml-1m", "mf", "psp-ns")
    others = [
        cell,
        cell.but(data="epinions"),
        cell.but(model="lightgcn"),
        cell.but(method="psp"),
        cell.but(protocol="published"),
        cell.but(alone=True),
        cell.but(changes=(("positives.rank", 30),)),
        cell.but(changes=(("positives.rank", 40),)),
        cell.but(changes=(("weighting.sensitivity", 0.001),)),
    ]
    assert len({one.name for one in others}) == len(others)
    assert others[-1].name == "mf-ml-1m-psp-ns-strict-sensitivity-0.001"


def test_no_two_cells_of_the_experiments_have_one_name():
    found = {}
    for name in experiment_names():
        experiment = find_experiment(name)
        for data in experiment.data:
            for cell in (*experiment.cells(data), *experiment.tuned(data)):
                assert found.setdefault(cell.name, cell) == cell
                cell.settings(Terms(), data)  # nothing in it is refused
    assert len(found) > 100
