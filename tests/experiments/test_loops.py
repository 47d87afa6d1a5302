"""Which cells share a loop: what `run_together` refuses is the oracle."""

import functools
import itertools

import pytest

from pspns.components import part_names
from pspns.errors import SettingsError
from pspns.experiments import loops as loops_module
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.loops import MOST_REPLICAS, loops
from pspns.run import check_company

ONE_SEED = Terms(seeds=1, device="cpu")


def of(method="uniform", model="lightgcn", protocol="strict", data="d", **changes):
    changes = tuple((key.replace("__", "."), value) for key, value in changes.items())
    return Cell(data, model, method, protocol, changes)


METHODS = ("uniform", "observed", "dns", "deca", "dcf", "global", "psp", "psp-ns", "dns-psp", "recommended")
VARIED = [
    *(of(method) for method in METHODS),
    of(protocol="published"),
    of(protocol="best-on-test"),
    of("psp-ns", protocol="published"),
    of(model="mf"),
    of("psp-ns", model="mf"),
    of(data="another"),
    of(model__embedding_size=8),
    of(training__l2=0.5),
    of(training__learning_rate=0.5),
    of(training__steps=9),
    of(training__loss="bce"),
    of(evaluation__k=(5, 20)),
    of(evaluation__inactive=3),
    of(run__data_seed=1),
    of(run__threads=1),
    of(run__seeds=(7,)),
    of(data__min_rating=4.0),
    of(data__noise=0.1),
    of(start__name="spectral"),
    of("psp-ns", positives__rank=9),
    of("psp-ns", model__graph="merged"),
    of("psp-ns", model__graph="merged", training__l2=0.5),
    of("psp-ns", model__graph="merged", positives__rank=9),
    of("psp-ns", model__graph="merged", protocol="published"),
    of(model__graph="merged"),
]


@functools.cache
def settings_of(cell):
    return cell.settings(ONE_SEED, cell.data)


def may_share(*cells):
    members = [settings_of(cell) for cell in cells]
    try:
        check_company(members)
    except SettingsError:
        return False
    return True


def test_where_there_is_room_two_cells_share_a_loop_if_and_only_if_they_may(monkeypatch):
    monkeypatch.setattr(loops_module, "MOST_REPLICAS", 1000)
    loop_of = {cell: number for number, loop in enumerate(loops(VARIED, ONE_SEED)) for cell in loop}
    shared = 0
    for one, other in itertools.combinations(VARIED, 2):
        together = loop_of[one] == loop_of[other]
        assert together == may_share(one, other), (one, other)
        shared += together
    assert len(VARIED) < shared < 10 * len(VARIED)


def test_a_start_that_widens_the_svd_is_not_in_the_loop_of_another_whose_graph_is_the_pairs():
    """`check_company` lets it pass, but then the pairs may differ, and training is refused."""
    cells = [of("psp-ns", model__graph="merged"), of("psp-ns", model__graph="merged", start__name="spectral")]
    assert may_share(*cells)
    assert len(loops(cells, ONE_SEED)) == 2


@pytest.mark.parametrize("seeds", [1, 3, 10, None])
def test_loops_have_every_cell_once_and_never_too_many_replicas(seeds):
    terms = Terms(seeds=seeds, device="cpu")
    found = loops(VARIED, terms)
    assert sorted(cell.name for loop in found for cell in loop) == sorted(cell.name for cell in VARIED)
    for loop in found:
        assert may_share(*loop)
        n_replicas = [len(cell.settings(terms, cell.data).run.seeds) for cell in loop]
        assert len(loop) == 1 or sum(n_replicas) <= MOST_REPLICAS


def test_loops_leave_no_room_that_a_cell_could_have():
    cells = [of(method) for method in ("uniform", "psp", "psp-ns", "merged", "global", "repeated")]
    found = loops(cells, Terms())  # 10, 3, 10, 3, 3, 3 seeds
    assert [[cell.method for cell in loop] for loop in found] == [
        ["uniform"],
        ["psp", "merged", "global", "repeated"],
        ["psp-ns"],
    ]
    assert len(loops([of(run__seeds=(seed,)) for seed in range(13)], ONE_SEED)) == 2


def test_more_replicas_than_a_loop_is_worth_still_have_one():
    assert loops([of()], Terms(seeds=20)) == [[of()]]


def test_a_cell_that_is_to_be_alone_has_no_company():
    cells = [of("psp-ns"), of().but(alone=True), of(training__l2=0.5), of("psp").but(alone=True)]
    assert loops(cells, ONE_SEED) == [[cells[0], cells[2]], [cells[1]], [cells[3]]]


def test_samplers_and_denoisers_have_loops_of_their_own():
    names = [*part_names("negatives"), "deca", "pld"]
    assert [len(loop) for loop in loops([of(name) for name in names], ONE_SEED)] == [1] * len(names)
