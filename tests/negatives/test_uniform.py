import numpy as np
import torch
from toy import make_world, random_pairs

from pspns.data.split import Pairs
from pspns.item_sets import ItemSets
from pspns.losses.bpr import bpr
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
    objective(batch, negatives, view, bpr, 0.0).sum().backward()
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
