"""Models without a training loop, against dense numpy."""

import dataclasses

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.components import find_part
from pspns.errors import SettingsError
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget, MemoryBudgetError
from pspns.models._choosing import best_on_validation
from pspns.models.ease import Ease, ItemToItem
from pspns.models.popular import Popular
from pspns.models.svd import SvdRanking
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

USERS = torch.arange(40)


def trainer(world, validate=None) -> Trainer:
    return Trainer([Member(world, None, 0, (0,), validate)], None, TrainingSettings(), "recall@20", lambda *_: None)


@pytest.mark.parametrize(("select_by", "best"), [("recall@20", 7), ("valid-loss", 5)])
def test_the_best_candidate_is_the_highest_or_of_losses_the_lowest(select_by, best):
    figures = {3: 0.5, 5: 0.2, 7: 0.8, 9: 0.8, 11: 0.2}
    asked = iter(figures.values())
    chooser = dataclasses.replace(trainer(toy_world(), lambda *_: {select_by: next(asked)}), select_by=select_by)
    found = best_on_validation("rank", ((rank, f"scorer {rank}") for rank in figures), chooser)
    assert (found.chosen, found.scorer) == ({"rank": best}, f"scorer {best}")


def dense(world) -> np.ndarray:
    return world.train.matrix(world.n_users, world.n_items).toarray().astype(np.float64)


def test_popular_counts_train_pairs():
    world = toy_world()
    scorer = Popular().fit(world, trainer(world)).scorer
    assert np.array_equal(scorer.scores(USERS, 0).numpy(), np.tile(dense(world).sum(0), (40, 1)))
    assert np.array_equal(scorer.fold_in(torch.tensor([3]), 0).numpy(), dense(world).sum(0))


def test_svd_is_the_reconstruction_times_the_root_of_item_degree():
    world, X = toy_world(), dense(toy_world())
    scorer = SvdRanking(rank=6).fit(world, trainer(world)).scorer
    normalised = X / np.sqrt(np.outer(X.sum(1), X.sum(0)))
    u, s, vt = np.linalg.svd(normalised, full_matrices=False)
    expected = (u[:, :6] * s[:6]) @ vt[:6] * np.sqrt(X.sum(0))
    np.testing.assert_allclose(scorer.scores(USERS, 0), expected, atol=1e-4)


def test_svd_folds_a_user_in_as_if_they_had_been_there():
    # At full rank the fold-in of a train user's items is the user's own row, up to their degree.
    world, X = toy_world(), dense(toy_world())
    scorer = SvdRanking(rank=30).fit(world, trainer(world)).scorer
    for user in (0, 7):
        folded = scorer.fold_in(torch.from_numpy(np.flatnonzero(X[user])), 0).numpy()
        own = scorer.scores(torch.tensor([user]), 0)[0].numpy()
        np.testing.assert_allclose(folded / np.sqrt(X[user].sum()), own, atol=1e-4)


def test_ease_is_least_squares_with_a_zero_diagonal():
    world, X = toy_world(), dense(toy_world())
    scorer = Ease(l2=5.0).fit(world, trainer(world)).scorer
    for item in range(world.n_items):
        others = np.delete(np.arange(world.n_items), item)
        # Column by column: ridge regression of the item on all others.
        column = np.linalg.solve(X[:, others].T @ X[:, others] + 5 * np.eye(len(others)), X[:, others].T @ X[:, item])
        np.testing.assert_allclose(scorer.weights[others, item], column, atol=1e-4)
        assert scorer.weights[item, item] == 0
    np.testing.assert_allclose(scorer.scores(USERS, 0), X @ scorer.weights.double().numpy(), atol=1e-4)
    np.testing.assert_allclose(scorer.fold_in(torch.tensor([2, 5]), 0), scorer.weights[[2, 5]].sum(0), atol=1e-6)


def test_ease_scores_users_in_any_order_and_those_without_items():
    weights = torch.arange(9.0).view(3, 3)
    from pspns.data.split import Pairs

    scorer = ItemToItem(weights, ItemSets(3, 3, Pairs(np.array([0, 0, 2]), np.array([0, 2, 1]))))
    assert scorer.scores(torch.tensor([2, 1, 0]), 0).tolist() == [[3, 4, 5], [0, 0, 0], [6, 8, 10]]


def test_ease_takes_the_l2_that_validation_likes_best():
    world, asked = toy_world(), []

    def validate(scorer, replica):
        asked.append(scorer)
        return {"recall@20": [0.1, 0.3, 0.3, 0.2][len(asked) - 1]}

    fitted = Ease().fit(world, trainer(world, validate))
    assert len(asked) == 4
    assert fitted.chosen == {"l2": 200.0}  # the first of equals
    assert fitted.scorer is asked[1]


def test_svd_tries_only_ranks_that_fit():
    world = toy_world()  # 30 items: of 16, 32, … only the first
    fitted = SvdRanking().fit(world, trainer(world, lambda scorer, replica: {"recall@20": 1.0}))
    assert fitted.chosen == {"rank": 16}
    assert fitted.scorer.items.shape == (30, 1, 16)


@pytest.mark.parametrize("name", ["svd", "ease"])
def test_without_validation_the_setting_must_be_given(name):
    world = toy_world()
    with pytest.raises(SettingsError, match=r"is chosen on validation unless it is set.*set --model\."):
        find_part("models", name)().fit(world, trainer(world))


def test_ease_says_what_it_would_need_before_starting():
    world = dataclasses.replace(toy_world(), n_items=100_000, memory=MemoryBudget(torch.device("cpu"), gib=4))
    with pytest.raises(MemoryBudgetError, match=r"ease with 100,000 items needs about 261 GiB .* budget is 4 GiB"):
        Ease(l2=1.0).fit(world, trainer(world))


def test_impossible_settings():
    with pytest.raises(SettingsError, match="rank must be at most min"):
        SvdRanking(rank=31).fit(toy_world(), trainer(toy_world()))
    with pytest.raises(SettingsError, match="rank must be at least 1"):
        SvdRanking(rank=0)
    with pytest.raises(SettingsError, match="l2 must be above 0"):
        Ease(l2=0.0)
