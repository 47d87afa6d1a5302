"""The whole story on small data."""

import dataclasses

import numpy as np
import pytest
import torch
from toy import given_split

from pspns.data.catalogue.planted_clustered import PlantedClustered
from pspns.data.interactions import Interactions
from pspns.data.split import Part
from pspns.data.splits.none import NoSplit
from pspns.data.splits.per_user import PerUserSplit
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.memory import MemoryBudgetError
from pspns.models.ease import Ease
from pspns.models.popular import Popular
from pspns.run import BASELINES, choose_device, make_split, run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings


def settings(protocol="strict", **changes) -> Settings:
    base = Settings(
        training=TrainingSettings(steps=30, batch_size=256),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
        run=RunSettings(protocol=protocol, seeds=(0, 1), device="cpu", baselines=False),
    )
    return dataclasses.replace(base, **changes)


@pytest.fixture(scope="module")
def clustered() -> Interactions:
    return PlantedClustered(n_users=150, n_items=120).load()


def test_mf_learns_a_clustered_world_beside_its_baselines():
    world = PlantedClustered(
        n_users=400, n_items=300, mean_preferences=30, popularity_skew=0.3, false_positive_share=0.1
    )
    found = run(
        world.load(),
        settings(
            training=TrainingSettings(batch_size=512, learning_rate=0.01, max_steps=600),
            run=RunSettings(seeds=(0, 1), device="cpu"),
        ),
    )
    assert [judged.name for judged in found.baselines] == list(BASELINES)
    by_name = {judged.name: judged.test[0].overall["recall@5"] for judged in (found.model, *found.baselines)}
    assert by_name["mf"] > 1.5 * by_name["popular"]
    assert by_name["ease"] > 1.5 * by_name["popular"]
    assert len(found.model.test) == 2
    assert set(found.model.test_other_masks) == {"train"}
    assert set(found.seconds) == {"split", "positives", "training", "evaluation", "baselines"}


def test_masks_leave_out_known_pairs_and_differ_between_masks(clustered):
    found = run(clustered, settings(model=Popular()))
    # Popularity offers train items first; under the strict mask neither train nor validation pairs may be offered.
    strict, train = found.model.test[0].overall, found.model.test_other_masks["train"][0].overall
    assert strict["recall@5"] != train["recall@5"]


@pytest.mark.parametrize("protocol", ["strict", "published", "best-on-test"])
def test_every_protocol_runs(clustered, protocol):
    found = run(clustered, settings(protocol))
    assert found.protocol.name == protocol
    assert (len(found.split.valid) == 0) == (protocol == "best-on-test")
    assert (found.rankings.valid is None) == (protocol == "best-on-test")
    assert found.model.test[0].overall["recall@5"] > 0


def test_best_on_test_chooses_by_the_test():
    found = run(
        given_split(60, 40, 600),
        settings("best-on-test", training=TrainingSettings(batch_size=64, max_steps=60, evaluate_every=10)),
    )
    for replica, seed in enumerate((0, 1)):
        curve = [evaluation.metrics[seed]["recall@5"] for evaluation in found.model.fitted.history]
        assert found.model.test[replica].overall["recall@5"] == max(curve)


def test_strict_chooses_by_validation_under_mask_train():
    found = run(
        given_split(60, 40, 600), settings(training=TrainingSettings(batch_size=64, max_steps=60, evaluate_every=10))
    )
    for replica, seed in enumerate((0, 1)):
        curve = [evaluation.metrics[seed]["recall@5"] for evaluation in found.model.fitted.history]
        assert found.model.valid[replica].overall["recall@5"] == max(curve)


def test_a_given_split_without_validation_gets_one_from_train_never_from_test():
    given = given_split(40, 30, 400)
    test_only = dataclasses.replace(given, parts=np.where(given.parts == Part.VALID, Part.TRAIN, given.parts))
    strict = make_split(test_only, settings(), find_protocol("strict"))
    anchors = make_split(test_only, settings("best-on-test"), find_protocol("best-on-test"))
    n_test = int((test_only.parts == Part.TEST).sum())
    assert len(strict.test) == len(anchors.test) == n_test
    assert len(strict.valid) == round((len(test_only.parts) - n_test) / 9)
    assert len(anchors.valid) == 0
    assert len(anchors.train) == len(strict.train) + len(strict.valid)


def test_a_named_split_wins_over_the_given_one():
    given = given_split(40, 30, 400)
    split = make_split(given, settings(split=PerUserSplit()), find_protocol("strict"))
    assert "within each user" in split.made_by
    assert len(split.test) != int((given.parts == Part.TEST).sum())


def test_refitting_on_everything(clustered):
    found = run(clustered, settings(split=NoSplit()))
    assert len(found.split.train) == len(clustered)
    assert found.model.test == found.model.valid == []
    assert found.baselines == []
    assert found.model.fitted.steps == [30, 30]
    with pytest.raises(SettingsError, match=r"set --training\.steps"):
        run(clustered, settings(split=NoSplit(), training=TrainingSettings()))


def test_a_baseline_that_does_not_fit_is_left_out_and_said():
    said = []
    tight = RunSettings(seeds=(0,), device="cpu", memory_gib=0.0009)
    # Of so many items that ease needs more than training does.
    found = run(given_split(60, 250, 900), settings(run=tight), say=said.append)
    assert [judged.name for judged in found.baselines] == ["popular", "svd"]
    assert "ease with" in found.left_out["ease"]
    assert any(line.startswith("baseline ease left out: ease with") for line in said)


def test_a_baseline_alone_runs_like_any_other_model(clustered):
    found = run(clustered, settings(model=Ease(), run=RunSettings(device="cpu")))
    assert found.model.name == "ease"
    assert found.model.fitted.chosen["l2"] in (100, 200, 500, 1000)
    assert [judged.name for judged in found.baselines] == ["popular", "svd"]


def test_devices():
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("tpu", "mps"):
        with pytest.raises(SettingsError, match="use cpu, cuda or auto"):
            choose_device(name)
    if not torch.cuda.is_available():
        with pytest.raises(SettingsError, match="torch finds no GPU here; use --device cpu"):
            choose_device("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_agrees_with_the_cpu(clustered):
    cpu, gpu = (run(clustered, settings(run=RunSettings(seeds=(0, 1), device=device))) for device in ("cpu", "cuda"))
    for one, two in zip((cpu.model, *cpu.baselines), (gpu.model, *gpu.baselines), strict=True):
        assert two.test[0].overall["recall@5"] == pytest.approx(one.test[0].overall["recall@5"], abs=0.01)
    torch.testing.assert_close(cpu.model.fitted.scorer.users, gpu.model.fitted.scorer.users.cpu(), rtol=1e-3, atol=1e-5)


def test_more_replicas_than_memory_holds_are_refused_before_any_is_made():
    data, tight = given_split(60, 40, 600), RunSettings(seeds=tuple(range(5000)), device="cpu", memory_gib=0.05)
    with pytest.raises(MemoryBudgetError, match=r"training 5,000 replicas needs about .*take fewer seeds"):
        run(data, settings(run=tight))
