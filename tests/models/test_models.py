"""The contract of every model in the folder."""

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.components import find_part, part_names
from pspns.negatives.uniform import UniformNegatives
from pspns.starts.xavier import XavierStart
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

SEEDS = (0, 4)


@pytest.fixture(params=part_names("models"))
def fitted(request):
    world = toy_world()
    trainer = Trainer(
        [Member(world, XavierStart(), 1e-4, SEEDS, lambda scorer, replica: {"recall@20": 0.5})],
        UniformNegatives(),
        TrainingSettings(steps=20, batch_size=64),
        "recall@20",
        lambda *_: None,
    )
    part = find_part("models", request.param)()
    return part, part.fit(world, trainer)


def test_scores_every_item_for_any_users(fitted):
    _, found = fitted
    users = torch.tensor([5, 0, 5, 39])
    for replica in range(found.scorer.n_replicas):
        scores = found.scorer.scores(users, replica)
        assert scores.shape == (4, 30)
        assert scores.dtype == torch.float32
        assert torch.isfinite(scores).all()
        assert torch.equal(scores[0], scores[2])
        assert scores.std() > 0


def test_folds_in(fitted):
    _, found = fitted
    for replica in range(found.scorer.n_replicas):
        scores = found.scorer.fold_in(torch.tensor([1, 2, 3]), replica)
        assert scores.shape == (30,)
        assert torch.isfinite(scores).all()


def test_survives_being_taken_apart(fitted):
    part, found = fitted
    again = part.scorer.from_tensors({name: tensor.clone() for name, tensor in found.scorer.tensors().items()})
    users, items = torch.arange(40), torch.tensor([1, 2])
    for replica in range(found.scorer.n_replicas):
        assert torch.equal(again.scores(users, replica), found.scorer.scores(users, replica))
        assert torch.equal(again.fold_in(items, replica), found.scorer.fold_in(items, replica))


def test_one_replica_for_each_seed_or_one_without_a_loop(fitted):
    _, found = fitted
    assert found.scorer.n_replicas == (len(SEEDS) if found.steps else 1)
    assert len(found.steps) == len(found.best_steps) == (len(SEEDS) if found.steps else 0)


def test_mf_scores_are_dot_products():
    from pspns.models._dot_product import DotProduct

    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(4, 2, 3)).astype(np.float32), rng.normal(size=(5, 2, 3)).astype(np.float32)
    scorer = DotProduct(torch.from_numpy(users), torch.from_numpy(items))
    for replica in range(2):
        np.testing.assert_allclose(
            scorer.scores(torch.tensor([3, 1]), replica), users[[3, 1], replica] @ items[:, replica].T, rtol=1e-5
        )
        expected = items[:, replica] @ items[[0, 4], replica].sum(0)
        np.testing.assert_allclose(scorer.fold_in(torch.tensor([0, 4]), replica), expected, rtol=1e-5)
