import numpy as np
import torch
from sampler_worlds import SmallWorld, each_row, in_proportion, p_value
from toy import make_world, random_pairs

from pspns.data.split import Pairs
from pspns.denoising._denoising import Denoising
from pspns.item_sets import ItemSets
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import Embeddings, ModelView
from pspns.training.epochs import Epochs
from pspns.training.objective import objective


def view_of(world, n_replicas):
    tables = [torch.randn(n, n_replicas, 4, requires_grad=True) for n in (world.n_users, world.n_items)]
    embeddings = Embeddings(*tables)
    return ModelView(base=embeddings, final=embeddings)


def test_never_a_rejected_item_and_every_other_one():
    world = make_world(random_pairs(12, 9, 40, np.random.default_rng(0)), 12, 9)
    sampler, epochs, view = UniformNegatives().start(world, [0, 1]), Epochs([world] * 2, 16, [0, 1]), view_of(world, 2)
    seen = set()
    for _ in range(300):
        batch = epochs.next_batch()
        items = sampler.sample(batch, view).items
        assert not world.rejected.contains(batch.users, items).any()
        seen |= set(zip(batch.users.flatten().tolist(), items.flatten().tolist(), strict=True))
    owned = set(zip(world.train.users.tolist(), world.train.items.tolist(), strict=True))
    assert seen == {(u, i) for u in range(12) for i in range(9)} - owned


def test_gradient_reaches_the_drawn_items():
    world = make_world(random_pairs(12, 9, 40, np.random.default_rng(0)), 12, 9)
    view, batch = view_of(world, 3), Epochs([world] * 3, 16, [0, 1, 2]).next_batch()
    negatives = UniformNegatives().start(world, [0, 1, 2]).sample(batch, view)
    objective(batch, negatives, view, Denoising("bpr"), 0.0)[0].sum().backward()
    touched = view.final.items.grad.abs().sum(-1) > 0  # [items, replicas]
    for replica in range(3):
        expected = {*negatives.items[replica].tolist(), *batch.items[replica].tolist()}
        assert set(touched[:, replica].nonzero().flatten().tolist()) == expected


def test_held_out_items_do_occur():
    # Rejecting them would be a leak: the sampler would know what is held out.
    train, held_out = Pairs(np.array([0, 1]), np.array([0, 1])), ItemSets(2, 3, Pairs(np.array([0]), np.array([2])))
    world = make_world(train, 2, 3)
    sampler, epochs, view = UniformNegatives().start(world, [0]), Epochs([world], 2, [0]), view_of(world, 1)
    hits = 0
    for _ in range(50):
        batch = epochs.next_batch()
        hits += int(held_out.contains(batch.users, sampler.sample(batch, view).items).sum())
    assert hits > 0


def test_all_free_items_are_equally_likely_for_each_user_of_each_replica():
    # 2,000 draws for each of 30 users: one item drawn 1.3 times as often as others, for each of them, would be seen.
    world = SmallWorld(UniformNegatives())
    assert p_value(world.counts(world.everybody(2000)), in_proportion(np.ones(()), world.free)) > 1e-4


def test_is_the_free_item_whose_turn_it_is():
    world = SmallWorld(UniformNegatives())
    for number in range(3):
        batch = world.batch(number)
        found, bits = world.items(batch), world.stream(number).bits(64, 1).squeeze(-1).tolist()
        for replica, row, user, _ in each_row(batch):
            free = np.flatnonzero(world.free[replica, user])
            # The upper half of the bits as a fraction, of which the item's rank is made.
            assert found[replica, row] == free[(bits[replica][row] % 2**64 >> 32) * len(free) >> 32]


def test_owned_too_draws_from_all_items():
    world, default = SmallWorld(UniformNegatives(owned_too=True)), SmallWorld(UniformNegatives())
    batch = world.everybody(2000)
    assert p_value(world.counts(batch), in_proportion(np.ones(()), np.ones_like(world.free))) > 1e-4
    assert (default.counts(batch)[~world.free] == 0).all()
