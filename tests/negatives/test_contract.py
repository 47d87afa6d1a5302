"""What every sampler of the folder promises."""

import numpy as np
import pytest
import torch

from pspns.components import find_part, part_names
from pspns.data.split import Pairs
from pspns.errors import DataError
from pspns.item_sets import ItemSets, RejectedItems
from pspns.memory import MemoryBudget
from pspns.shapes import Embeddings, ModelView, PositiveBatch, SharedWorld

N_USERS, N_ITEMS, N_LAYERS, N_ROWS = 12, 9, 3, 64
SIZE = N_ITEMS
SEEDS = (3, 0, 8)
# [sets, users, items] The second replica rejects more than train; the others share their sets. User 0 may be given
# item 8 and no other; everybody else but user 1 may be given it too.
OWNED = np.random.default_rng(0).random((2, N_USERS, N_ITEMS)) < 0.4
OWNED[..., 8] = False
OWNED[:, 0, :8] = True
OWNED[:, 1] = np.arange(N_ITEMS) == 8
OWNED[1] |= OWNED[0]
TRAIN = Pairs(*np.nonzero(OWNED[0]))
OWN_SETS = (0, 1, 0)
BATCHES_AN_EPOCH = (2, 3, 2)  # the second replica has more pairs
# Short of the defaults, so that a few batches reach all that a sampler does, and pools do not hold all there is.
SETTINGS = {
    "ahns": {"candidates": 2},
    "dns": {"candidates": 2},
    "dns-m-n": {"candidates": 4, "best": 2},
    "irgan": {"warm_up": 1, "generator_batch": 5},
    "srns": {"memory": 3, "fresh": 4, "warm_up": 2},
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


# Switches that make a sampler keep or give more.
WITH_SWITCH = {
    "dns, frozen": ("dns", {"frozen_scores": True}),
    "dns-m-n, summed": ("dns-m-n", {"sum_over_best": True}),
    "srns, forgetful": ("srns", {"forgets": True}),
}


@pytest.fixture(params=[*part_names("negatives"), *WITH_SWITCH])
def part(request):
    name, switch = WITH_SWITCH.get(request.param, (request.param, {}))
    return find_part("negatives", name)(**SETTINGS.get(name, {}), **switch)


def item_sets(device) -> list[ItemSets]:
    return [ItemSets(N_USERS, N_ITEMS, Pairs(*np.nonzero(table)), device=device) for table in OWNED]


def make_world(rejected: RejectedItems, device) -> SharedWorld:
    return SharedWorld(N_USERS, N_ITEMS, TRAIN, 0, MemoryBudget(device), rejected=rejected, embedding_size=SIZE)


def make_view(replicas, device, tables=None) -> ModelView:
    """A model whose layers differ; `tables` makes one of `[nodes, 3, size]`, for a layer and a side."""
    generator = torch.Generator().manual_seed(0)
    tables = tables or (lambda n_nodes, layer: torch.randn(n_nodes, 3, SIZE, generator=generator))
    layers = [
        Embeddings(*(tables(n, layer)[:, list(replicas)].contiguous().to(device) for n in (N_USERS, N_ITEMS)))
        for layer in range(N_LAYERS + 1)
    ]
    users, items = (sum(getattr(layer, side) for layer in layers) / len(layers) for side in ("users", "items"))
    return ModelView(base=layers[0], final=Embeddings(users, items), layers=layers)


def make_batch(number: int, replicas, device, n_rows: int = N_ROWS) -> PositiveBatch:
    """The same rows for a replica whoever else is there; the last few only fill the block."""
    pairs = [np.random.default_rng([number, replica]).integers(len(TRAIN), size=n_rows) for replica in replicas]
    ids = torch.from_numpy(np.stack(pairs))
    users, items = (torch.from_numpy(values)[ids] for values in (TRAIN.users, TRAIN.items))
    live = torch.ones(ids.shape)
    live[:, 60:] = 0
    epochs = torch.tensor([number // BATCHES_AN_EPOCH[replica] for replica in replicas])
    return PositiveBatch(*(part.to(device) for part in (users, items, ids, torch.ones(ids.shape), live, epochs)))


class Loop:
    """A sampler for some of the replicas, told of batches and of the ends of epochs as the training loop does."""

    def __init__(self, part, device, replicas=(0, 1, 2), seeds=SEEDS):
        sets = item_sets(device)
        self.rejected = RejectedItems([sets[OWN_SETS[replica]] for replica in replicas])
        self.sampler = part.start(make_world(self.rejected, device), [seeds[replica] for replica in replicas])
        self._device, self._replicas, self._number = device, list(replicas), 0
        self.view = make_view(replicas, device)

    def sample(self, n_rows=N_ROWS):
        """The next batch and its negatives."""
        number, self._number = self._number, self._number + 1
        ended = [r for r, replica in enumerate(self._replicas) if number and number % BATCHES_AN_EPOCH[replica] == 0]
        if ended and self.sampler.follows_epochs:
            with torch.no_grad():
                self.sampler.end_epoch(ended, self.view)
        batch = make_batch(number, self._replicas, self._device, n_rows)
        return batch, self.sampler.sample(batch, self.view)

    def drawn(self, n_rows=N_ROWS) -> list[torch.Tensor]:
        """All that a draw gives, replica first."""
        found = self.sample(n_rows)[1]
        return [values.detach() for values in vars(found).values() if values is not None]

    def keep(self, places):
        index = torch.tensor(places, device=self._device)
        self.sampler.keep(index)
        self.rejected.keep(index)  # which the loop does beside
        self._replicas = [self._replicas[place] for place in places]
        self.view = make_view(self._replicas, self._device)

    def at(self, number: int):
        self._number = number
        return self


def are_equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return len(one) == len(two) > 0 and all(map(torch.equal, one, two))


@pytest.mark.parametrize("n_rows", [1, N_ROWS])
def test_gives_items_or_vectors_for_every_row(part, device, n_rows):
    loop = Loop(part, device)
    for _ in range(7):
        _, found = loop.sample(n_rows)
        assert found.items is not None or found.embeddings is not None
        if found.items is not None:
            assert found.items.shape == (3, n_rows)
            assert found.items.dtype == torch.int64
            assert ((found.items >= 0) & (found.items < N_ITEMS)).all()
        # Vectors that are no item's come with what the L2 term is to hold small for them.
        assert (found.embeddings is None) == (found.base_embeddings is None)
        for vectors in (found.embeddings, found.base_embeddings):
            assert vectors is None or (vectors.shape == (3, n_rows, SIZE) and vectors.isfinite().all())
        assert found.row_losses is None or (found.row_losses.shape == (3, n_rows) and found.row_losses.isfinite().all())


def test_never_an_item_that_the_replica_rejects(part, device):
    loop = Loop(part, device)
    # Item i has the i-th unit vector in all layers, so that vectors, too, tell what items they are made of.
    users = torch.randn(N_USERS, 3, SIZE, generator=torch.Generator().manual_seed(1))
    loop.view = make_view(
        range(3), device, lambda n, layer: users if n == N_USERS else torch.eye(N_ITEMS)[:, None].expand(-1, 3, -1)
    )
    seen = torch.zeros(N_ITEMS, dtype=torch.bool, device=device)
    for _ in range(50):
        batch, found = loop.sample()
        shares = found.embeddings
        if shares is None:
            shares = torch.eye(N_ITEMS, device=device)[found.items]
        shares = shares.detach().scatter(-1, batch.items[..., None], 0.0)  # of the row's own positive there may be some
        rejected = loop.rejected.contains(
            batch.users[..., None].expand_as(shares), torch.arange(N_ITEMS, device=device).expand_as(shares)
        )
        assert (shares[rejected] == 0).all()
        assert (shares.sum(-1) > 0).all()
        assert (shares[batch.users == 0][:, 8] > 0).all()  # who owns all but one gets that one
        seen |= (shares > 0).flatten(0, -2).any(0)
    assert seen.all()


def test_the_same_seed_draws_the_same_and_another_does_not(part, device):
    one, two, other = Loop(part, device), Loop(part, device), Loop(part, device, seeds=(1, 2, 4))
    first = [one.drawn() for _ in range(7)]
    assert all(are_equal(found, two.drawn()) for found in first)
    assert not any(are_equal(found, other.drawn()) for found in first)


def test_draws_anew_at_every_step(part, device):
    loop = Loop(part, device)
    assert not are_equal(loop.drawn(), loop.at(0).drawn())


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_replica_draws_the_same_alone_and_in_company(part, device, replica):
    together, alone = Loop(part, device), Loop(part, device, [replica])
    for _ in range(7):
        own = [values[[replica]] for values in together.drawn()]
        if device.type == "cpu":
            assert are_equal(own, alone.drawn())
        else:  # vectors may be summed in another order
            torch.testing.assert_close(own, alone.drawn())


@pytest.mark.parametrize("staying", [[1], [0, 2]])
def test_replicas_that_stay_go_on_as_if_nobody_had_left(part, device, staying):
    whole, smaller = Loop(part, device), Loop(part, device)
    for _ in range(5):
        whole.drawn(), smaller.drawn()
    smaller.keep(staying)
    for _ in range(5):
        own = [values[staying] for values in whole.drawn()]
        torch.testing.assert_close(own, smaller.drawn(), rtol=0 if device.type == "cpu" else 1e-5, atol=0)


def test_goes_on_from_a_state_with_the_same_draws(part, device):
    loop = Loop(part, device)
    for _ in range(5):  # into the middle of an epoch
        loop.drawn()
    state = {name: tensor.clone() for name, tensor in loop.sampler.state().items()}
    following = [loop.drawn() for _ in range(5)]
    resumed = Loop(part, device).at(5)
    resumed.sampler.load_state(state)
    assert all(are_equal(found, resumed.drawn()) for found in following)
    # A state is a copy: what happened since has not changed it, and going back works as well.
    loop.sampler.load_state(state)
    loop.at(5)
    assert all(are_equal(found, loop.drawn()) for found in following)


def test_a_state_is_no_window_on_the_sampler(part, device):
    loop = Loop(part, device)
    for _ in range(5):
        loop.drawn()
    state = loop.sampler.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    for _ in range(5):
        loop.drawn()
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in before.items())


def test_a_gradient_passes_through_what_is_made_and_not_through_a_choice(part, device):
    """Vectors are made of items that may be drawn and of the positive; users and other items have no part in them."""
    loop = Loop(part, device)
    for _ in range(3):
        loop.sample()
    leaves = [table.requires_grad_() for layer in loop.view.layers for table in (layer.users, layer.items)]
    users, items = (sum(getattr(layer, side) for layer in loop.view.layers) for side in ("users", "items"))
    loop.view = ModelView(loop.view.base, Embeddings(users / 4, items / 4), loop.view.layers)
    batch, found = loop.sample()
    needs_gradient = loop.sampler.reads in ("gradients", "layers")
    given = [values for values in (found.embeddings, found.base_embeddings, found.row_losses) if values is not None]
    assert bool(given) == needs_gradient
    assert all(values.requires_grad for values in given)
    if found.embeddings is None:
        return
    row = int((batch.users[0] == 0).nonzero()[0])  # who may be given item 8 alone
    found.embeddings[0, row].sum().backward(retain_graph=True)
    assert all(table.grad is None for table in leaves[0::2])
    taking_part = {8, int(batch.items[0, row])}
    for table in leaves[1::2]:
        moved = table.grad.abs().sum(-1).nonzero().tolist()  # (item, replica)
        assert moved
        assert {item for item, _ in moved} <= taking_part
        assert {replica for _, replica in moved} == {0}


def test_says_what_it_needs(part, device):
    sampler = Loop(part, device).sampler
    assert sampler.reads in ("nothing", "scores", "gradients", "layers")
    assert isinstance(sampler.stays_on_device, bool)
    assert isinstance(sampler.follows_epochs, bool)
    # Only steps that follow the gradient can teach a sampler anything.
    assert not sampler.parameters() or sampler.reads in ("gradients", "layers")


def test_a_user_without_room_is_refused_at_the_start(part, device):
    everything = Pairs(np.zeros(N_ITEMS, np.int64), np.arange(N_ITEMS))
    sets = [item_sets(device)[0], ItemSets(N_USERS, N_ITEMS, TRAIN, everything, device=device)]
    with pytest.raises(DataError, match=r"own all 9 items .* so no negative can be drawn for them"):
        part.start(make_world(RejectedItems(sets), device), [0, 1])
