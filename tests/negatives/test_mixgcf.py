"""MixGCF against a loop over layers and candidates, and against its neighbours DNS and RNS."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, each_row, random_view, view_of
from scipy import stats

from pspns.errors import SettingsError
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.mixgcf import MixedNegatives
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import Embeddings, ModelView


def tables_of(view):
    """(users, items) of each layer and last of the mean, in float64."""
    return [
        tuple(table.detach().double().numpy() for table in (layer.users, layer.items))
        for layer in (*view.layers, view.final)
    ]


def mixed_by_hand(view, batch, pool, shares):
    """The vectors of each layer, `[layers, replicas, rows, size]`, and which items they were mixed of."""
    *layers, (final_users, _) = tables_of(view)
    made = np.zeros((len(layers), *batch.users.shape, final_users.shape[-1]))
    chosen = np.zeros(made.shape[:-1], np.int64)
    for replica, row, user, item in each_row(batch):
        for number, (_, items) in enumerate(layers):
            share = shares[replica, row, number]
            candidates = [share * items[item, replica] + (1 - share) * items[k, replica] for k in pool[replica, row]]
            best = max(range(len(candidates)), key=lambda k: final_users[user, replica] @ candidates[k])
            made[number, replica, row], chosen[number, replica, row] = candidates[best], pool[replica, row, best]
    return made, chosen


def show_all(world, n_layers):
    """A view in which items have unit vectors, others in each layer, so that negatives tell what they are made of."""
    size = world.n_items * (n_layers + 1)
    generator = torch.Generator().manual_seed(0)
    units = torch.eye(size).view(n_layers + 1, world.n_items, 1, size).expand(-1, -1, 3, -1)
    layers = [Embeddings(torch.randn(world.n_users, 3, size, generator=generator), own.contiguous()) for own in units]
    return view_of(layers)


def make_up(world, batch, n_layers):
    """What negatives are made of, `[replicas, rows, layers, items]`, in a world with that view."""
    found = world.sample(batch).embeddings
    return found.view(*batch.users.shape, n_layers + 1, world.n_items).numpy() * (n_layers + 1)


@pytest.mark.parametrize("n_layers", [0, 1, 3])
@pytest.mark.parametrize("candidates", [1, 5, 32])
def test_is_the_mean_of_what_each_layer_mixes(candidates, n_layers):
    world = SmallWorld(MixedNegatives(candidates=candidates), n_layers=n_layers)
    for number in range(2):
        batch = world.batch(number, 20)
        pool, found = world.pool(batch), world.sample(batch)
        # One call for the pool, one for the shares.
        shares = world.stream(2 * number + 1).fractions(20, n_layers + 1).numpy()
        made, _ = mixed_by_hand(world.view, batch, pool, shares)
        np.testing.assert_allclose(found.embeddings.detach(), made.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.base_embeddings.detach(), made[0], rtol=1e-4, atol=1e-5)
        assert found.items is None
        assert found.row_losses is None


def test_which_item_is_chosen_does_not_depend_on_the_shares(monkeypatch):
    chosen = []
    for share in (0.0, 0.3, 0.9, 0.999):
        world = SmallWorld(MixedNegatives(candidates=6))
        world.view = show_all(world, 2)
        fixed = torch.full((3, 64, 3), share, dtype=torch.float64)
        monkeypatch.setattr(world.sampler._stream, "fractions", lambda *shape, fixed=fixed: fixed)
        batch = world.batch()
        parts = make_up(world, batch, 2)
        positive = batch.items[..., None, None].expand(-1, -1, 3, 1).numpy()
        np.testing.assert_allclose(np.take_along_axis(parts, positive, -1), share, atol=1e-5)
        np.put_along_axis(parts, positive, 0.0, -1)
        np.testing.assert_allclose(parts.max(-1), 1 - share, atol=1e-5)
        chosen.append(parts.argmax(-1))
    assert all(np.array_equal(chosen[0], other) for other in chosen)
    assert (chosen[0][..., 0] != chosen[0][..., 1]).mean() > 0.3  # layers choose each for themselves


def test_shares_are_uniform_and_each_row_and_layer_has_its_own():
    world = SmallWorld(MixedNegatives(candidates=2))
    world.view = show_all(world, 1)
    batch = world.everybody(200)
    parts = make_up(world, batch, 1)
    positive = batch.items[..., None, None].expand(-1, -1, 2, 1).numpy()
    shares = np.take_along_axis(parts, positive, -1)[..., 0]  # [replicas, rows, layers]
    assert stats.kstest(shares.ravel(), "uniform").pvalue > 1e-4
    # Of 12,000 numbers of float32 a few are equal by chance; one for all rows, or for all layers, would be all.
    assert len(np.unique(shares.round(6))) > 0.98 * shares.size
    assert abs(np.corrcoef(shares[..., 0].ravel(), shares[..., 1].ravel())[0, 1]) < 0.05  # four standard errors


def test_without_layers_it_is_dns_with_a_smaller_margin():
    for seed in range(4):  # MixGCF draws twice a batch: only first batches have the same pool
        seeds = (seed, seed + 10, seed + 20)
        mixed = SmallWorld(MixedNegatives(candidates=6), seeds=seeds)
        dns = SmallWorld(DynamicNegatives(candidates=6), seeds=seeds)
        batch = dns.batch(seed)
        negative, hardest = mixed.sample(batch).embeddings.detach().double().numpy(), dns.items(batch)
        shares = mixed.stream(1).fractions(64, 1).numpy()
        (users, _), _ = tables_of(mixed.view)
        for replica, row, user, item in each_row(batch):
            scores = dns.scores[replica, user]
            margin = scores[item] - users[user, replica] @ negative[replica, row]
            expected = (1 - shares[replica, row, 0]) * (scores[item] - scores[hardest[replica, row]])
            assert margin == pytest.approx(expected, abs=1e-5)


def test_with_nothing_mixed_in_one_candidate_is_a_uniform_draw(monkeypatch):
    mixed, uniform = SmallWorld(MixedNegatives(candidates=1), n_layers=2), SmallWorld(UniformNegatives(), n_layers=2)
    monkeypatch.setattr(mixed.sampler._stream, "fractions", lambda *shape: torch.zeros(3, *shape, dtype=torch.float64))
    for number in range(3):
        batch = mixed.batch(number)
        items, own = uniform.items(batch), np.arange(3)[:, None]
        final, base = (table.items.detach().numpy()[items, own] for table in (mixed.view.final, mixed.view.base))
        found = mixed.sample(batch)
        np.testing.assert_allclose(found.embeddings.detach(), final, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.base_embeddings.detach(), base, rtol=1e-5, atol=1e-6)


def test_the_gradient_reaches_both_items_in_each_layer_by_their_shares():
    world = SmallWorld(MixedNegatives(candidates=4), n_layers=2)
    batch = world.batch(0, 8)
    pool, shares = world.pool(batch), world.stream(1).fractions(8, 3).numpy()
    found = world.sample(batch)
    slopes = torch.randn(found.embeddings.shape, generator=torch.Generator().manual_seed(1))
    (found.embeddings * slopes).sum().backward()
    _, chosen = mixed_by_hand(world.view, batch, pool, shares)
    for number, layer in enumerate(world.view.layers):
        expected = np.zeros(layer.items.shape)
        for replica, row, _, item in each_row(batch):
            share, slope = shares[replica, row, number], slopes[replica, row].numpy() / 3
            expected[item, replica] += share * slope
            expected[chosen[number, replica, row], replica] += (1 - share) * slope
        np.testing.assert_allclose(layer.items.grad, expected, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_that_of_finite_differences():
    def world_with(layers):
        """The users' means, by which candidates are chosen, stay as they are."""
        world = SmallWorld(MixedNegatives(candidates=4), own_sets=(0,), seeds=(5,), view=view)
        world.view = ModelView(base=layers[0], final=view.final, layers=layers)
        return world

    view = random_view(10, 14, 1, n_layers=2)
    batch = world_with(view.layers).batch(0, 4)
    slopes = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(1))

    def value(layers):
        return (world_with(layers).sample(batch).embeddings * slopes).sum()

    value(view.layers).backward()
    for number in range(3):
        gradient = torch.zeros_like(view.layers[number].items)
        for place in np.ndindex(gradient.shape):
            both = []
            for step in (0.01, -0.01):
                changed = view.layers[number].items.detach().clone()
                changed[place] += step
                layers = list(view.layers)
                layers[number] = Embeddings(layers[number].users, changed)
                both.append(value(layers).item())
            gradient[place] = (both[0] - both[1]) / 0.02
        torch.testing.assert_close(view.layers[number].items.grad, gradient, rtol=1e-2, atol=1e-3)
        assert (gradient != 0).sum() >= 5 * 4  # at least four items have been reached


def test_a_wrong_setting_is_refused():
    with pytest.raises(SettingsError, match=r"candidates must be at least 1, got 0; change \[negatives\] candidates"):
        MixedNegatives(candidates=0)
