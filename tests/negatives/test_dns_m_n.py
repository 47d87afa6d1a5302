"""DNS(M,N) against sorting, against what chance makes of ranks, and against its two neighbours DNS and RNS."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, each_row, in_proportion, p_value, random_view
from scipy import stats

from pspns.denoising._denoising import Denoising
from pspns.errors import SettingsError
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.dns_m_n import BestOfManyNegatives
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import Negatives
from pspns.training.objective import objective


@pytest.mark.parametrize("n_layers", [0, 2])
@pytest.mark.parametrize(("candidates", "best"), [(1, 1), (6, 1), (6, 3), (20, 5), (4, 4)])
def test_is_that_of_the_best_candidates_where_the_stream_points(candidates, best, n_layers):
    world = SmallWorld(BestOfManyNegatives(candidates=candidates, best=best), n_layers=n_layers)
    scores = world.scores
    for number in range(3):
        batch = world.batch(number)
        pool, found = world.pool(batch), world.items(batch)
        # One call for the pool, one for the place among the best.
        bits = world.stream(2 * number + 1).bits(64, 1).squeeze(-1).tolist()
        for replica, row, user, _ in each_row(batch):
            ranked = sorted(pool[replica, row], key=lambda item: -scores[replica, user, item])
            assert found[replica, row] == ranked[(bits[replica][row] % 2**64 >> 32) * best >> 32]


@pytest.mark.parametrize(("candidates", "best"), [(10, 1), (10, 3), (10, 7), (40, 20), (10, 10)])
def test_the_rank_of_the_negative_among_the_candidates_is_uniform_up_to_m(candidates, best):
    # Ranks 1 to M − 1 alone, or one rank a fifth too often, would be seen in 6,000 draws for each of three replicas.
    owned = np.zeros((1, 4, 60), bool)
    owned[:, :, 0] = True
    world = SmallWorld(
        BestOfManyNegatives(candidates=candidates, best=best), owned=owned, own_sets=(0, 0, 0),
        view=random_view(4, 60, 3),
    )  # fmt: skip
    batch = world.everybody(1500)
    # Candidates that are all different, so that each has one rank.
    pool = np.random.default_rng(0).permuted(np.broadcast_to(np.arange(1, 60), (3, 6000, 59)), axis=-1)[
        ..., :candidates
    ]
    world.sampler._pool = lambda _: torch.from_numpy(pool)
    own, rows = np.arange(3)[:, None], batch.users.numpy()
    scores, found = world.scores, world.items(batch)
    is_above = scores[own[..., None], rows[..., None], pool] > scores[own, rows, found][..., None]
    ranks = is_above.sum(-1)  # the best has 0
    for replica in range(3):
        counts = np.bincount(ranks[replica], minlength=best)
        assert len(counts) == best
        assert best == 1 or stats.chisquare(counts).pvalue > 1e-4


def test_the_best_one_alone_is_dns():
    for seed in range(6):  # DNS(M,N) draws twice a batch: only first batches have the same pool
        seeds = (seed, seed + 10, seed + 20)
        best = SmallWorld(BestOfManyNegatives(candidates=5, best=1), seeds=seeds)
        dns = SmallWorld(DynamicNegatives(candidates=5), seeds=seeds)
        batch = dns.batch(seed)
        assert np.array_equal(best.items(batch), dns.items(batch))


def test_all_as_best_is_uniform():
    world = SmallWorld(BestOfManyNegatives(candidates=4, best=4))
    assert p_value(world.counts(world.everybody(4000)), in_proportion(np.ones(()), world.free)) > 1e-4
    one, uniform = SmallWorld(BestOfManyNegatives(candidates=1, best=1)), SmallWorld(UniformNegatives())
    assert np.array_equal(one.items(one.batch()), uniform.items(one.batch()))


def test_fewer_best_are_harder():
    means = []
    for best in (1, 2, 5, 10):
        world = SmallWorld(BestOfManyNegatives(candidates=10, best=best))
        batch = world.everybody(400)
        means.append(world.scores[np.arange(3)[:, None], batch.users.numpy(), world.items(batch)].mean())
    assert (np.diff(means) < -0.1).all()


def test_sum_over_best_adds_up_the_loss_of_all_the_best():
    world = SmallWorld(BestOfManyNegatives(candidates=6, best=3, sum_over_best=True), n_layers=1)
    assert world.sampler.reads == "gradients"
    assert SmallWorld(BestOfManyNegatives()).sampler.reads == "scores"
    batch, scores = world.batch(), world.scores
    pool, found = world.pool(batch), world.sample(batch)
    best = np.array(
        [sorted(pool[r, row], key=lambda item: -scores[r, user, item])[:3] for r, row, user, _ in each_row(batch)]
    ).reshape(3, 64, 3)  # fmt: skip
    assert np.array_equal(found.items, best[..., 0])
    value = objective(batch, found, world.view, Denoising("bpr"), 0.0)[0]
    expected = np.zeros(3)
    for r, row, user, item in each_row(batch):
        margins = scores[r, user, best[r, row]] - scores[r, user, item]
        expected[r] += np.log1p(np.exp(margins)).sum() / 64
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-5)
    # M times the gradient to be expected if one of the best is drawn.
    leaves = [table for layer in world.view.layers for table in (layer.users, layer.items)]
    summed = torch.autograd.grad(value.sum(), leaves, retain_graph=True)
    one_by_one = [
        torch.autograd.grad(
            objective(batch, Negatives(items=own), world.view, Denoising("bpr"), 0.0)[0].sum(),
            leaves,
            retain_graph=True,
        )
        for own in torch.from_numpy(best).unbind(-1)
    ]
    for total, *parts in zip(summed, *one_by_one, strict=True):
        torch.testing.assert_close(total, torch.stack(parts).mean(0) * 3, rtol=1e-4, atol=1e-6)


def test_sum_over_one_is_the_plain_rule():
    plain, summed = (
        SmallWorld(BestOfManyNegatives(candidates=6, best=1, sum_over_best=switch)) for switch in (False, True)
    )
    batch = plain.batch()
    one, two = (
        objective(batch, world.sample(batch), world.view, Denoising("bpr"), 0.1)[0] for world in (plain, summed)
    )
    torch.testing.assert_close(one, two)


def test_owned_too_takes_candidates_from_all_items():
    world = SmallWorld(BestOfManyNegatives(candidates=3, best=3, owned_too=True))
    default = SmallWorld(BestOfManyNegatives(candidates=3, best=3))
    batch = world.everybody(4000)
    assert p_value(world.counts(batch), in_proportion(np.ones(()), np.ones_like(world.free))) > 1e-4
    assert (default.counts(batch)[~world.free] == 0).all()


def test_owned_items_are_chosen_where_they_score_highest():
    world = SmallWorld(BestOfManyNegatives(candidates=200, best=1, owned_too=True))
    batch = world.batch()
    # With 200 draws from 14 items, all are there.
    expected = world.scores.argmax(-1)[np.arange(3)[:, None], batch.users.numpy()]
    assert np.array_equal(world.items(batch), expected)
    assert not world.free[np.arange(3)[:, None], batch.users.numpy(), expected].all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 0, "best": 1}, r"candidates must be at least 1, got 0; change \[negatives\] candidates"),
        ({"best": 0}, r"best must be at least 1, got 0; change \[negatives\] best"),
        ({"candidates": 4, "best": 5}, r"best must be at most candidates \(4\), got 5; change \[negatives\] best"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        BestOfManyNegatives(**settings)
