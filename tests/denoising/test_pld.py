"""PLD: whose rows, which pools, which of them; counted beside the chances that the rule says."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from denoiser_worlds import MODELS, denoised, pair_batch, same_bits, softplus, train, world_of
from sampler_worlds import p_value, view_with_scores
from toy import make_world, toy_world

from pspns.denoising.none import NoDenoising
from pspns.denoising.pld import PersonalLossDraw
from pspns.errors import SettingsError
from pspns.positives.repeated import RepeatedPositives
from pspns.shapes import Negatives

N_USERS, N_ITEMS = 7, 12
# User u has u + 1 items from item u on, but the last has none; nobody has the last two.
OWNED = np.zeros((N_USERS, N_ITEMS), bool)
for user in range(N_USERS - 1):
    OWNED[user, (user + np.arange(user + 1)) % (N_ITEMS - 2)] = True
WORLD = world_of(OWNED)
SCORES = np.random.default_rng(0).normal(size=(N_USERS, N_ITEMS))
SCORES[:, -2:] = -1, 1  # so that it matters which of the two is the negative
NEGATIVE = N_ITEMS - 1


def at_work(*worlds, seeds=None, **settings):
    seeds = range(len(worlds)) if seeds is None else seeds
    return PersonalLossDraw(**{"warm_up": 0, **settings}).start(denoised(*worlds), list(seeds))


def drawn(denoiser, batch, view, negative=NEGATIVE):
    """The rows that are trained, all against the same negative."""
    negatives = Negatives(torch.full_like(batch.items, negative))
    rows, same = denoiser.choose_positives(batch, negatives, view)
    assert same is negatives
    return rows


def all_pairs_of(world, user, times):
    """A batch that has each pair of a user so often."""
    return pair_batch(world, np.tile(np.flatnonzero(world.pairs.users == user), times)[None])


def counts_of_pairs(ids, world, user):
    """How often each pair of a user is among them."""
    return np.bincount(ids.flatten().numpy(), minlength=len(world.pairs))[world.pairs.users == user]


# The pool


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_pool_is_of_the_user_s_pairs_and_distinct_if_there_are_enough(k):
    denoiser = at_work(WORLD, pool=k)
    batch = pair_batch(WORLD, np.tile(np.arange(len(WORLD.pairs)), 40)[None])
    pool = denoiser._pool(batch)
    assert pool.shape == (1, batch.users.shape[1], k)
    assert torch.equal(pool[..., 0], batch.pair_ids)
    users, items = WORLD.pairs.users[pool.numpy()], WORLD.pairs.items[pool.numpy()]
    assert (users == batch.users.numpy()[..., None]).all()
    assert OWNED[users, items].all()
    assert not WORLD.rejected.contains(batch.users, torch.full_like(batch.users, NEGATIVE)).any()
    n_distinct = np.array([len(set(row)) for row in pool[0].tolist()])
    has_enough = OWNED.sum(1)[batch.users[0].numpy()] >= k
    assert (n_distinct[has_enough] == k).all()
    assert (n_distinct[~has_enough] < k).all()  # with repetition


@pytest.mark.parametrize(("user", "k"), [(3, 2), (3, 3), (4, 3), (5, 5), (5, 2)])
def test_every_pool_of_so_many_is_as_likely_as_any_other(user, k):
    pools = at_work(WORLD, pool=k)._pool(all_pairs_of(WORLD, user, 1500))[0].sort(-1).values.tolist()
    possible = {ids: place for place, ids in enumerate(itertools.combinations(ids_of(user), k))}
    counts = np.bincount([possible[tuple(ids)] for ids in pools], minlength=len(possible))
    assert p_value(counts, np.full(len(possible), 1 / len(possible))) > 1e-3


@pytest.mark.parametrize(("user", "k"), [(1, 3), (2, 5), (3, 5)])
def test_of_too_few_all_are_drawn_alike_and_independently(user, k):
    pools = at_work(WORLD, pool=k)._pool(all_pairs_of(WORLD, user, 1500))[0].numpy()
    n = user + 1
    for place in range(k):
        counts = np.bincount(pools[:, place] - ids_of(user)[0], minlength=n)
        assert p_value(counts, np.full(n, 1 / n)) > 1e-3 if place else (counts == 1500).all()
    together = np.bincount((pools[:, 1:3] - ids_of(user)[0]) @ [n, 1], minlength=n * n)
    assert p_value(together, np.full(n * n, 1 / n**2)) > 1e-3


def ids_of(user):
    return np.flatnonzero(WORLD.pairs.users == user).tolist()


def test_a_pair_with_copies_is_as_many_items():
    """Pools of three of six visits: pair 0 has one, pair 1 three, pair 2 two."""
    world = world_of([[1, 1, 1, 0, 0]])
    world = replace(world, pairs=replace(world.pairs, copies=np.array([1, 3, 2], np.uint8)))
    visits = [0, 1, 1, 1, 2, 2]
    batch = pair_batch(world, np.tile(visits, 1500)[None])
    pools = at_work(world, pool=3)._pool(batch)[0].sort(-1).values.tolist()
    expected = [tuple(sorted(visits[place] for place in chosen)) for chosen in itertools.combinations(range(6), 3)]
    possible = {ids: place for place, ids in enumerate(sorted(set(expected)))}
    counts = np.bincount([possible[tuple(ids)] for ids in pools], minlength=len(possible))
    assert p_value(counts, np.array([expected.count(ids) for ids in possible]) / len(expected)) > 1e-3


def test_without_a_say_of_the_loss_pairs_are_drawn_as_often_as_plain_training_visits_them():
    world = world_of([[1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0]])
    world = replace(world, pairs=replace(world.pairs, copies=np.array([1, 3, 1, 2, 4, 1], np.uint8)))
    view = view_with_scores(np.random.default_rng(0).normal(size=(2, 6)))
    by_visits = np.repeat(np.arange(6), world.pairs.copies)
    for users, batch in (("interaction", by_visits), ("uniform", np.zeros(12, np.int64))):
        denoiser = at_work(world, pool=3, temperature=1e6, users=users)
        rows = denoiser.choose_users(pair_batch(world, np.tile(batch, 1500)[None]))
        counts = [counts_of_pairs(drawn(denoiser, rows, view, 5).pair_ids, world, user) for user in (0, 1)]
        assert p_value(counts[0], np.array([1, 3, 1, 2]) / 7) > 1e-3
        assert p_value(counts[1], np.array([4, 1]) / 5) > 1e-3


# The draw


def chances(user, temperature, negative=NEGATIVE):
    """softmax(−ℓ / τ) over all of a user's items."""
    losses = softplus(SCORES[user, negative] - SCORES[user, OWNED[user]])
    weights = np.exp(-(losses - losses.min()) / temperature)
    return weights / weights.sum()


@pytest.mark.parametrize("user", [2, 4])
@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_one_of_the_pool_is_drawn_by_its_loss(user, temperature):
    """Of users with just k items the pool is known, whatever is drawn."""
    denoiser = at_work(WORLD, pool=user + 1, temperature=temperature)
    rows = drawn(denoiser, all_pairs_of(WORLD, user, 4000), view_with_scores(SCORES))
    counts = counts_of_pairs(rows.pair_ids, WORLD, user)
    assert p_value(counts, chances(user, temperature)) > 1e-3
    # And so many draws would tell these from other temperatures, or from another negative.
    for other in (chances(user, 1.5 * temperature), chances(user, temperature, N_ITEMS - 2)):
        assert p_value(counts, other) < 1e-6


def test_far_above_one_all_are_alike_and_towards_zero_the_smallest_loss_wins():
    view, batch = view_with_scores(SCORES), all_pairs_of(WORLD, 4, 1500)
    hot = drawn(at_work(WORLD, pool=5, temperature=1e6), batch, view)
    assert p_value(counts_of_pairs(hot.pair_ids, WORLD, 4), np.full(5, 0.2)) > 1e-3
    cold = drawn(at_work(WORLD, pool=5, temperature=1e-6), batch, view)
    best = np.flatnonzero(OWNED[4])[SCORES[4, OWNED[4]].argmax()]
    assert (cold.items == best).all()
    # With fewer candidates than items, the best of each pool.
    denoiser, twin = (at_work(WORLD, pool=3, temperature=1e-6) for _ in range(2))
    pools = WORLD.pairs.items[twin._pool(batch)[0].numpy()]
    expected = pools[np.arange(len(pools)), SCORES[4, pools].argmax(-1)]
    assert drawn(denoiser, batch, view).items[0].tolist() == expected.tolist()
    assert len(set(expected.tolist())) == 3


def test_the_negative_of_each_row_judges_its_pool():
    """Between a negative that all outscore and one that outscores all, losses differ a little or much."""
    scores = np.zeros((1, 4))
    scores[0] = [1.0, 0.0, -30.0, 30.0]
    world = world_of([[1, 1, 0, 0]])
    denoiser = at_work(world, pool=2, temperature=1.0)
    batch = pair_batch(world, np.tile([0, 1], 4000)[None])
    negatives = Negatives(torch.tensor([2, 3]).repeat_interleave(4000)[None])
    rows, _ = denoiser.choose_positives(batch, negatives, view_with_scores(scores))
    easy, hard = (counts_of_pairs(ids, world, 0) for ids in rows.pair_ids[0].split(4000))
    assert p_value(easy, np.array([0.5, 0.5])) > 1e-3  # both losses are 0
    assert p_value(hard, np.array([np.e, 1]) / (np.e + 1)) > 1e-3  # they differ by 1


def test_in_the_first_epochs_items_are_drawn_at_random():
    """Each replica by its own epochs; the row's own pair is one of the user's, as plain training draws them."""
    denoiser = at_work(WORLD, WORLD, WORLD, pool=3, temperature=1e-6, warm_up=2)
    ids = np.tile(np.arange(len(WORLD.pairs)), (3, 10))
    batch = pair_batch(WORLD, ids, epochs=[1, 2, 0])
    view = view_with_scores(np.stack([SCORES] * 3))
    rows = drawn(denoiser, batch, view)
    assert torch.equal(rows.pair_ids[[0, 2]], batch.pair_ids[[0, 2]])
    assert not torch.equal(rows.pair_ids[1], batch.pair_ids[1])
    uniform = at_work(WORLD, pool=3, temperature=1e-6, warm_up=2, users="uniform")
    batch = uniform.choose_users(all_pairs_of(WORLD, 0, 30_000))
    counts = counts_of_pairs(drawn(uniform, batch, view_with_scores(SCORES)).pair_ids, WORLD, 4)
    assert p_value(counts, np.full(5, 0.2)) > 1e-3


# Whose rows


def test_all_users_are_as_likely_or_as_the_batch_has_them():
    batch = all_pairs_of(WORLD, 5, 3000)
    alike = at_work(WORLD, users="uniform").choose_users(batch)
    counts = np.bincount(alike.users[0].numpy(), minlength=N_USERS)
    assert p_value(counts, np.append(np.full(N_USERS - 1, 1 / (N_USERS - 1)), 0.0)) > 1e-3
    for user in range(1, N_USERS - 1):
        own = alike.pair_ids[alike.users == user]
        assert p_value(counts_of_pairs(own, WORLD, user), np.full(user + 1, 1 / (user + 1))) > 1e-3
    by_interaction = at_work(WORLD, users="interaction")
    assert by_interaction.choose_users(batch) is batch
    rows = drawn(by_interaction, batch, view_with_scores(SCORES))
    assert torch.equal(rows.users, batch.users)


@pytest.mark.parametrize("users", ["uniform", "interaction"])
def test_what_a_row_carries_is_that_of_the_pair_drawn(users):
    """Replicas with pairs and weights of their own; live and epochs are the batch's."""
    rng = np.random.default_rng(1)

    def weighted(owned):
        world = world_of(owned)
        pairs = replace(world.pairs, pair_weights=rng.random(len(world.pairs)).astype(np.float32))
        return replace(world, pairs=pairs, user_weights=rng.random(N_USERS).astype(np.float32))

    other = OWNED.copy()
    other[:, [0, 5]] = True
    worlds = [weighted(OWNED), weighted(other), weighted(OWNED)]
    denoiser = at_work(*worlds, pool=3, temperature=10.0, users=users)
    ids = np.stack([rng.integers(len(world.pairs), size=600) for world in worlds])
    batch = pair_batch(worlds, ids, epochs=[4, 5, 6], live=rng.random((3, 600)) < 0.9)
    chosen = denoiser.choose_users(batch)
    rows = drawn(denoiser, chosen, view_with_scores(np.stack([SCORES] * 3)))
    for found in (chosen, rows):
        expected = pair_batch(worlds, found.pair_ids, epochs=batch.epochs, live=batch.live)
        assert all(torch.equal(values, getattr(found, name)) for name, values in vars(expected).items())
    assert torch.equal(chosen.users, rows.users)
    assert not torch.equal(chosen.pair_ids, rows.pair_ids)
    # Every replica draws among its own, and all of these.
    for replica, world in enumerate(worlds):
        assert set(rows.pair_ids[replica].tolist()) == set(range(len(world.pairs)))


# In training


@pytest.mark.parametrize("model", MODELS)
def test_a_pool_of_one_is_plain_training_to_the_bit(model):
    world = toy_world()
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    plain = train([world, twice], NoDenoising(), model=model)
    assert same_bits(train([world, twice], PersonalLossDraw(pool=1, users="interaction"), model=model), plain)
    assert not same_bits(train([world, twice], PersonalLossDraw(pool=1), model=model), plain)
    by_loss = PersonalLossDraw(pool=2, users="interaction", warm_up=2)
    assert not same_bits(train([world, twice], by_loss, model=model), plain)
    # As long as all is drawn at random, the pool does not show.
    assert same_bits(train([world, twice], replace(by_loss, warm_up=50), model=model), plain)


def two_camps():
    """Either half of the users have most of one half of the items; what they have of the other half is false."""
    rng = np.random.default_rng(0)
    is_own = (np.arange(60) < 30)[:, None] == (np.arange(40) < 20)
    owned = np.where(is_own, rng.random((60, 40)) < 0.6, rng.random((60, 40)) < 0.1)
    return replace(world_of(owned), is_false=~is_own[owned])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("users", ["uniform", "interaction"])
def test_false_pairs_are_drawn_more_rarely_than_they_occur(model, users):
    world = two_camps()
    by_loss, at_random = (
        train(world, PersonalLossDraw(temperature=tau, warm_up=0, users=users), model=model, steps=80).history[-1].kept
        for tau in (0.1, 1e6)
    )
    for seed in (0, 1):
        assert by_loss[seed]["false"] < 0.5 < 0.8 < at_random[seed]["false"] < 1.25
        assert by_loss[seed]["true"] > 1 > 0.9 * at_random[seed]["true"]


def test_settings_that_mean_nothing_are_refused():
    for wrong in ({"pool": 0}, {"temperature": 0.0}, {"warm_up": -1}, {"users": "anybody"}):
        with pytest.raises(SettingsError, match=f"{next(iter(wrong))} must be .* change \\[denoiser\\]"):
            PersonalLossDraw(**wrong)
