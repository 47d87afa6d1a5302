"""DNS against a loop over candidates, and against what chance makes of the best of n."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, each_row, p_value, random_view, view_of

from pspns.errors import SettingsError
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import Embeddings


@pytest.mark.parametrize("n_layers", [0, 2])
@pytest.mark.parametrize("candidates", [1, 4, 32])
def test_is_the_candidate_with_the_highest_score(candidates, n_layers):
    world = SmallWorld(DynamicNegatives(candidates=candidates), n_layers=n_layers)
    scores = world.scores
    for number in range(5):
        batch = world.batch(number)
        pool, found = world.pool(batch), world.items(batch)
        assert pool.shape == (3, 64, candidates)
        for replica, row, user, _ in each_row(batch):
            best = max(pool[replica, row], key=scores[replica, user].__getitem__)
            assert found[replica, row] == best


@pytest.mark.parametrize("candidates", [2, 3])
def test_draws_as_often_as_the_best_of_n_independent_draws_is(candidates):
    # The r-th worst of f free items is the best of n with chance (rⁿ − (r − 1)ⁿ) / fⁿ. A pool without replacement, one
    # candidate less, or the second best would all be seen in 20,000 draws for each of 30 users.
    world = SmallWorld(DynamicNegatives(candidates=candidates))
    scores, chances = world.scores, np.zeros(world.free.shape)
    for replica, user in np.ndindex(world.free.shape[:2]):
        free = np.flatnonzero(world.free[replica, user])
        worst_first = free[np.argsort(scores[replica, user, free])]
        ranks = np.arange(1, len(free) + 1)
        chances[replica, user, worst_first] = (ranks**candidates - (ranks - 1) ** candidates) / len(free) ** candidates
    assert p_value(world.counts(world.everybody(20_000)), chances) > 1e-4


def test_one_candidate_is_a_uniform_draw():
    one, uniform = SmallWorld(DynamicNegatives(candidates=1)), SmallWorld(UniformNegatives())
    for number in range(5):
        assert np.array_equal(one.items(one.batch(number)), uniform.items(uniform.batch(number)))


def test_more_candidates_give_higher_scores():
    means = []
    for candidates in (1, 2, 4, 8, 16):
        world = SmallWorld(DynamicNegatives(candidates=candidates))
        batch = world.everybody(400)
        drawn = world.scores[np.arange(3)[:, None], batch.users.numpy(), world.items(batch)]
        means.append(drawn.reshape(-1, 400).mean(-1))  # of each user
    # More candidates can only help, for each user; the means of 400 draws are known to a tenth or so.
    assert (np.diff(means, axis=0) > -0.35).all()
    assert (np.diff(np.mean(means, axis=1)) > 0.1).all()


@pytest.mark.parametrize("change", ["add 3 to all scores", "four times all scores"])
def test_only_the_order_of_scores_matters(change):
    plain, changed = (SmallWorld(DynamicNegatives(candidates=6)) for _ in range(2))
    users, items = plain.view.final.users.detach(), plain.view.final.items.detach()
    if change == "add 3 to all scores":
        one = torch.ones(1, 1, 1)
        users = torch.cat((users, one.expand(*users.shape[:2], 1)), -1)
        items = torch.cat((items, (3 * one).expand(*items.shape[:2], 1)), -1)
    else:
        items = 4 * items
    changed.view = view_of([Embeddings(users, items)])
    assert not np.allclose(changed.scores, plain.scores)
    for number in range(5):
        batch = plain.batch(number)
        assert np.array_equal(plain.items(batch), changed.items(batch))


def test_a_wrong_setting_is_refused():
    with pytest.raises(SettingsError, match=r"candidates must be at least 1, got 0; change \[negatives\] candidates"):
        DynamicNegatives(candidates=0)


def test_frozen_scores_are_those_at_the_end_of_the_last_epoch():
    world = SmallWorld(DynamicNegatives(candidates=4, frozen_scores=True))
    scores_then, other = world.scores, random_view(world.n_users, world.n_items, 3, seed=5)
    batch = world.batch(0)
    pool, found = world.pool(batch), world.items(batch)
    assert np.array_equal(found, best_of(pool, batch, scores_then))  # in the first epoch: as now
    world.sampler.end_epoch([0, 2], world.view)
    world.view = other
    scores_now = world.scores
    assert not np.array_equal(scores_now, scores_then)
    batch = world.batch(1)
    pool, found = world.pool(batch), world.items(batch)
    of_then, of_now = best_of(pool, batch, scores_then), best_of(pool, batch, scores_now)
    assert np.array_equal(found[[0, 2]], of_then[[0, 2]])
    assert np.array_equal(found[1], of_now[1])  # whose epoch has not ended
    assert not np.array_equal(of_then, of_now)


def best_of(pool, batch, scores):
    of_pool = scores[np.arange(3)[:, None, None], batch.users.numpy()[..., None], pool]
    return np.take_along_axis(pool, of_pool.argmax(-1)[..., None], -1)[..., 0]
