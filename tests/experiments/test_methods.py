"""The methods that experiments compare."""

import numpy as np
import pytest
from toy import random_pairs

from pspns.components import part_names
from pspns.errors import SettingsError
from pspns.experiments import published
from pspns.experiments._members import changed, make_settings, recipe
from pspns.experiments.methods import (
    builds_pairs,
    method_names,
    method_tables,
    method_words,
    trained_as,
    with_psp,
)
from pspns.memory import MemoryBudget
from pspns.run import choose_device
from pspns.shapes import Ground


def settings_of(name):
    return make_settings(changed(method_tables(name), {"model": {"name": "lightgcn"}}))


def parts_of(name):
    made = settings_of(name).as_dict()
    return {section: made[section]["name"] for section in published.PLAIN}


def test_methods_of_the_paper_are_made_of_the_parts_it_names():
    assert method_names()[: len(published.methods())] == tuple(published.methods())
    for name, method in published.methods().items():
        assert parts_of(name) == dict(method.parts)
        assert method_words(name) == method.paper


def test_every_method_has_a_loss_that_its_parts_can_have():
    losses = {name: settings_of(name).training.loss for name in method_names()}  # refused otherwise
    assert {name for name, loss in losses.items() if loss != "bpr"} == {"deca"}


def test_every_sampler_is_a_method_alone_and_with_psp():
    samplers = part_names("negatives")
    assert len(samplers) == 9
    for sampler in samplers:
        assert parts_of(sampler) == {**published.PLAIN, "negatives": sampler}
        assert parts_of(with_psp(sampler)) == {**parts_of("psp-ns"), "negatives": sampler}
    assert len({with_psp(sampler) for sampler in samplers}) == 9
    for sampler in ("dns", "mixgcf", "ahns"):
        assert with_psp(sampler) in published.methods()
    assert with_psp("uniform") == "psp-ns"
    assert "dens" not in published.methods()
    assert method_words("dens-psp") == "dens-psp"


def test_methods_of_the_same_parts_are_trained_once():
    parts = {name: parts_of(name) for name in method_names() if name != "recommended"}
    for name in parts:
        same = [other for other in parts if parts[other] == parts[name]]
        assert trained_as(name) == same[0]
    assert [name for name in parts if trained_as(name) != name] == ["observed"]
    assert trained_as("recommended") == "recommended"


def test_recommended_is_the_recipe():
    assert method_tables("recommended") == recipe("recommended")
    assert method_words("recommended") == "recommended"


def test_a_method_that_is_not_there_is_named():
    with pytest.raises(SettingsError, match=r"no method named 'psp-n'.*did you mean 'psp-ns'"):
        method_tables("psp-n")


def test_whether_pairs_are_built_is_what_the_builders_do():
    n_users, n_items = 60, 40
    train = random_pairs(n_users, n_items, 400, np.random.default_rng(0))
    observed = set(zip(train.users.tolist(), train.items.tolist(), strict=True))
    found = {}
    for name in {settings_of(method).as_dict()["positives"]["name"]: method for method in method_names()}.values():
        positives = make_settings(changed(method_tables(name), {"positives": {"rank": 5}} if _has_rank(name) else {}))
        ground = Ground(n_users, n_items, train, 0, MemoryBudget(choose_device("cpu")))
        pairs = positives.positives.build(ground).as_pairs()
        built = set(zip(pairs.users.tolist(), pairs.items.tolist(), strict=True))
        found[name] = bool(built - observed)
    assert len(found) == len({method_tables(method)["positives"]["name"] for method in method_names()})
    assert found == {name: builds_pairs(name) for name in found}
    assert set(found.values()) == {True, False}


def _has_rank(name):
    return hasattr(settings_of(name).positives, "rank")
