"""Settings that train in one loop: each comes out as it would alone, and what cannot share a loop is refused."""

import dataclasses

import numpy as np
import pytest
import torch
from toy import given_split

from pspns.components import find_part
from pspns.data.settings import DataSettings
from pspns.data.splits.per_user import PerUserSplit
from pspns.errors import SettingsError
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.positives.agreement import AgreementPositives
from pspns.positives.merged_weighted import MergedWeightedPositives
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.run import check_company, run, run_together
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.starts.normal import NormalStart
from pspns.starts.spectral import SpectralStart
from pspns.starts.xavier import XavierStart
from pspns.training.settings import TrainingSettings
from pspns.weightings.exponential import ExponentialWeighting
from pspns.weightings.log import LogWeighting
from pspns.weightings.none import NoWeighting

TRAINING = TrainingSettings(batch_size=128, learning_rate=0.02, max_steps=150, evaluate_every=10, patience=2)


def member(model, *, positives, weighting, start, l2=1e-4, **run_settings) -> Settings:
    return Settings(
        positives=positives,
        weighting=weighting,
        start=start,
        model=model,
        training=dataclasses.replace(TRAINING, l2=l2),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
        run=RunSettings(device="cpu", **{"baselines": False, **run_settings}),
    )


def company(model) -> list[Settings]:
    """Members that differ in all that may differ; the copies of the second and third make their epochs longer."""
    return [
        member(model, positives=ObservedPositives(), weighting=NoWeighting(), start=XavierStart(), seeds=(0, 1)),
        member(
            model, positives=PspPositives(rank=8), weighting=LogWeighting(), start=XavierStart(), l2=0.0, seeds=(1, 5),
            protocol="published",
        ),
        member(
            model, positives=PspPositives(rank=8), weighting=LogWeighting(), start=SpectralStart(score_spread=0.5),
            l2=0.05, seeds=(1,),
        ),
        member(
            model, positives=MergedWeightedPositives(rank=5), weighting=ExponentialWeighting(), start=NormalStart(),
            seeds=(3,), protocol="published",
        ),
        member(
            model, positives=AgreementPositives(rank=4), weighting=NoWeighting(), start=SpectralStart(), seeds=(7, 0),
            baselines=True,
        ),
    ]  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[MatrixFactorisation(embedding_size=8), LightGcn(embedding_size=32)],
    ids=["mf", "lightgcn"],
)
def runs(request):
    """Members, and their runs together and each alone."""
    members, data = company(request.param), given_split(60, 40, 600)
    return members, run_together(data, members), [run(data, settings) for settings in members]


def test_every_member_comes_out_as_it_would_alone_to_the_bit(runs):
    for settings, together, alone in zip(*runs, strict=True):
        assert together.settings == settings
        for name, tensor in alone.model.fitted.scorer.tensors().items():
            assert torch.equal(together.model.fitted.scorer.tensors()[name], tensor)
        assert together.model.fitted.steps == alone.model.fitted.steps
        assert together.model.fitted.best_steps == alone.model.fitted.best_steps


def test_every_member_has_its_own_curve_by_its_own_seeds(runs):
    for settings, together, alone in zip(*runs, strict=True):
        for one, two in zip(together.model.fitted.history, alone.model.fitted.history, strict=True):
            assert (one.step, one.epochs, one.metrics, one.losses) == (two.step, two.epochs, two.metrics, two.losses)
        assert list(together.model.fitted.history[0].metrics) == list(settings.run.seeds)


def test_every_member_is_judged_as_it_would_be_alone(runs):
    def figures(judged):
        ranked = [*judged.valid, *judged.test, *(one for ones in judged.test_other_masks.values() for one in ones)]
        return judged.name, [one.overall for one in ranked]

    for _, together, alone in zip(*runs, strict=True):
        assert figures(together.model) == figures(alone.model)
        assert len(together.model.test) == len(together.settings.run.seeds)
        assert [figures(one) for one in together.baselines] == [figures(one) for one in alone.baselines]
        assert together.protocol == alone.protocol
        assert together.positives_facts == alone.positives_facts
        assert np.array_equal(together.positives.items, alone.positives.items)


def test_the_members_did_differ(runs):
    """Lest the above be true of runs that are all alike."""
    members, together, alone = runs
    tables = [one.model.fitted.scorer.users[:, 0] for one in together]
    assert not any(torch.equal(one, two) for place, one in enumerate(tables) for two in tables[:place])
    assert len({tuple(one.model.fitted.steps) for one in together}) > 1, "all stopped at the same step"
    epochs = [one.model.fitted.history[0].epochs for one in together]
    assert min(epochs[0].values()) > max(epochs[1].values()), "copies did not lengthen an epoch"
    assert {one.replicas_in_loop for one in together} == {sum(len(settings.run.seeds) for settings in members)} == {8}
    assert [one.replicas_in_loop for one in alone] == [len(settings.run.seeds) for settings in members]


@pytest.mark.parametrize(("batch_size", "embedding_size"), [(100, 64), (128, 7)])
def test_whatever_the_sizes_of_batch_and_vectors(batch_size, embedding_size):
    """Numbers at the end of an array may be rounded otherwise than those that fill a register of the processor."""
    data = given_split(61, 43, 600)
    members = [
        changed(settings, "training", batch_size=batch_size, steps=20)
        for settings in company(MatrixFactorisation(embedding_size=embedding_size))
    ]
    for settings, together in zip(members, run_together(data, members), strict=True):
        alone = run(data, settings)
        assert torch.equal(together.model.fitted.scorer.users, alone.model.fitted.scorer.users)
        assert torch.equal(together.model.fitted.scorer.items, alone.model.fitted.scorer.items)


BASE = member(
    MatrixFactorisation(), positives=ObservedPositives(), weighting=NoWeighting(), start=XavierStart(), seeds=(0,)
)


def changed(settings: Settings, section: str, **values) -> Settings:
    return dataclasses.replace(settings, **{section: dataclasses.replace(getattr(settings, section), **values)})


def test_a_company_may_differ_in_what_every_replica_has_for_itself():
    check_company([BASE])
    check_company(company(MatrixFactorisation()))
    assert check_company([BASE, BASE]) is None


def test_what_a_member_has_for_itself_reaches_it():
    data, base = given_split(60, 40, 600), changed(BASE, "training", steps=10)
    base = dataclasses.replace(base, positives=PspPositives(rank=8))
    members = [
        base,
        dataclasses.replace(base, positives=ObservedPositives()),
        dataclasses.replace(base, weighting=LogWeighting()),
        dataclasses.replace(base, start=NormalStart()),
        changed(base, "training", l2=0.5),
        changed(base, "run", seeds=(1,)),
        changed(base, "run", protocol="published"),
        base,
    ]
    first, *others, again = [one.model.fitted.scorer.users for one in run_together(data, members)]
    assert not any(torch.equal(first, other) for other in others)
    assert torch.equal(first, again)


@pytest.mark.parametrize(
    ("section", "other"),
    [
        ("data", dataclasses.replace(BASE, data=DataSettings(source="elsewhere.csv"))),
        ("split", dataclasses.replace(BASE, split=PerUserSplit())),
        ("negatives", dataclasses.replace(BASE, negatives=find_part("negatives", "negatives_for_tests:COMPONENT")())),
        ("model", dataclasses.replace(BASE, model=LightGcn())),
        ("model", dataclasses.replace(BASE, model=MatrixFactorisation(embedding_size=8))),
        ("training", changed(BASE, "training", learning_rate=0.1)),
        ("training", changed(BASE, "training", steps=5)),
        ("training", changed(BASE, "training", loss="bce")),
        ("evaluation", changed(BASE, "evaluation", k=(7,))),
        ("run", changed(BASE, "run", data_seed=1)),
        ("run", changed(BASE, "run", threads=2)),
        ("run", changed(BASE, "run", device="cuda")),
    ],
)
def test_a_company_that_differs_otherwise_is_refused_by_section(section, other):
    with pytest.raises(SettingsError, match=rf"must share \[{section}\], got .* and "):
        check_company([BASE, BASE, other])


def test_the_refusal_names_what_was_given_and_what_may_differ():
    with pytest.raises(
        SettingsError, match=r"embedding_size=64.* and .*embedding_size=8.*; .*positives, weighting, start"
    ):
        run_together(
            given_split(30, 20, 200), [BASE, dataclasses.replace(BASE, model=MatrixFactorisation(embedding_size=8))]
        )


def test_protocols_that_split_differently_are_refused():
    with pytest.raises(SettingsError, match="protocols strict and best-on-test split the data differently"):
        check_company([BASE, changed(BASE, "run", protocol="best-on-test")])


@pytest.mark.parametrize("graph", ["merged", "merged-weighted"])
def test_where_the_positives_are_the_graph_they_must_be_the_same(graph):
    first = dataclasses.replace(BASE, model=LightGcn(graph=graph), positives=PspPositives(rank=8))
    check_company([first, changed(first, "training", l2=0.5), dataclasses.replace(first, weighting=LogWeighting())])
    with pytest.raises(SettingsError, match="only if they share a graph; run them apart"):
        check_company([first, dataclasses.replace(first, positives=PspPositives(rank=9))])
    # The same builder, but `published` drops those of its pairs that are held out.
    with pytest.raises(SettingsError, match="only if they share a graph; run them apart"):
        check_company([first, changed(first, "run", protocol="published")])


def test_the_same_settings_may_build_another_graph():
    """Above 1,000 users and items the SVD is randomized, and a spectral start makes it wider: other pairs."""
    data = given_split(1050, 1040, 6000, held_out=np.array([(0, 1, 1), (1, 2, 2)]))
    model = LightGcn(embedding_size=32, layers=1, graph="merged")
    members = [
        dataclasses.replace(
            member(model, positives=PspPositives(rank=4), weighting=NoWeighting(), start=start, seeds=(0,)),
            training=TrainingSettings(steps=1, batch_size=64),
        )
        for start in (XavierStart(), SpectralStart())
    ]
    with pytest.raises(SettingsError, match="these settings build different pairs"):
        run_together(data, members)
