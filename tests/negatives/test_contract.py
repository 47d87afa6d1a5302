"""What every sampler of the folder promises."""

import numpy as np
import pytest
import torch
from toy import CPU

from pspns.components import find_part, part_names
from pspns.data.split import Pairs
from pspns.errors import DataError
from pspns.item_sets import ItemSets, RejectedItems
from pspns.memory import MemoryBudget
from pspns.shapes import Embeddings, ModelView, PositiveBatch, SharedWorld

N_USERS, N_ITEMS, SIZE, N_ROWS = 12, 9, 4, 64
SEEDS = (3, 0, 8)
# [sets, users, items] The second replica rejects more than train; the others share their sets. Everybody may be given
# item 8, and user 0 no other.
OWNED = np.random.default_rng(0).random((2, N_USERS, N_ITEMS)) < 0.4
OWNED[1] |= OWNED[0]
OWNED[:, 0] = True
OWNED[..., 8] = False
TRAIN = Pairs(*np.nonzero(OWNED[0]))
OWN_SETS = (0, 1, 0)


@pytest.fixture(params=part_names("negatives"))
def part(request):
    return find_part("negatives", request.param)()


def item_sets() -> list[ItemSets]:
    return [ItemSets(N_USERS, N_ITEMS, Pairs(*np.nonzero(table))) for table in OWNED]


def start(part, replicas=(0, 1, 2)):
    """A sampler for some of the replicas, and what it may not draw."""
    sets = item_sets()
    rejected = RejectedItems([sets[OWN_SETS[replica]] for replica in replicas])
    world = SharedWorld(N_USERS, N_ITEMS, TRAIN, 0, MemoryBudget(CPU), rejected=rejected)
    return part.start(world, [SEEDS[replica] for replica in replicas]), rejected


def make_batch(number: int, replicas=(0, 1, 2), n_rows: int = N_ROWS) -> PositiveBatch:
    """The same rows for a replica whoever else is there."""
    pairs = [np.random.default_rng([number, replica]).integers(len(TRAIN), size=n_rows) for replica in replicas]
    ids = torch.from_numpy(np.stack(pairs))
    users, items = (torch.from_numpy(values)[ids] for values in (TRAIN.users, TRAIN.items))
    return PositiveBatch(users, items, ids, torch.ones(ids.shape), torch.ones(ids.shape))


def make_view(replicas=(0, 1, 2)) -> ModelView:
    """A model whose propagated vectors are not its parameters."""
    generator = torch.Generator().manual_seed(0)
    base, final = (
        Embeddings(*(torch.randn(n, 3, SIZE, generator=generator)[:, list(replicas)] for n in (N_USERS, N_ITEMS)))
        for _ in range(2)
    )
    return ModelView(base=base, final=final)


def drawn(sampler, number: int, replicas=(0, 1, 2), n_rows: int = N_ROWS) -> list[torch.Tensor]:
    """All that a draw gives, replica first."""
    found = sampler.sample(make_batch(number, replicas, n_rows), make_view(replicas))
    return [values for values in (found.items, found.embeddings, found.base_embeddings) if values is not None]


def are_equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return len(one) == len(two) > 0 and all(map(torch.equal, one, two))


@pytest.mark.parametrize("n_rows", [1, N_ROWS])
def test_gives_items_or_vectors_for_every_row(part, n_rows):
    sampler, _ = start(part)
    found = sampler.sample(make_batch(0, n_rows=n_rows), make_view())
    assert found.items is not None or found.embeddings is not None
    if found.items is not None:
        assert found.items.shape == (3, n_rows)
        assert found.items.dtype == torch.int64
        assert ((found.items >= 0) & (found.items < N_ITEMS)).all()
    # Vectors that are no item's come with what the L2 term is to hold small for them.
    assert (found.embeddings is None) == (found.base_embeddings is None)
    for vectors in (found.embeddings, found.base_embeddings):
        assert vectors is None or vectors.shape == (3, n_rows, SIZE)


def test_never_an_item_that_the_replica_rejects(part):
    sampler, rejected = start(part)
    for number in range(50):
        batch = make_batch(number)
        items = sampler.sample(batch, make_view()).items
        if items is None:
            pytest.skip("gives vectors that are no item's")
        assert not rejected.contains(batch.users, items).any()
        assert (items[batch.users == 0] == 8).all()


def test_the_same_seed_draws_the_same_and_another_does_not(part):
    (one, _), (two, _) = start(part), start(part)
    first = [drawn(one, number) for number in range(5)]
    assert all(are_equal(found, drawn(two, number)) for number, found in enumerate(first))
    other = part.start(SharedWorld(N_USERS, N_ITEMS, TRAIN, 0, MemoryBudget(CPU), rejected=start(part)[1]), [1, 2, 4])
    assert not all(are_equal(found, drawn(other, number)) for number, found in enumerate(first))


def test_draws_anew_at_every_step(part):
    sampler, _ = start(part)
    assert not are_equal(drawn(sampler, 0), drawn(sampler, 0))


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_replica_draws_the_same_alone_and_in_company(part, replica):
    (together, _), (alone, _) = start(part), start(part, [replica])
    for number in range(5):
        own = [values[[replica]] for values in drawn(together, number)]
        assert are_equal(own, drawn(alone, number, [replica]))


@pytest.mark.parametrize("staying", [[1], [0, 2]])
def test_replicas_that_stay_go_on_as_if_nobody_had_left(part, staying):
    (whole, _), (smaller, rejected) = start(part), start(part)
    for number in range(3):
        drawn(whole, number), drawn(smaller, number)
    smaller.keep(torch.tensor(staying))
    rejected.keep(torch.tensor(staying))  # which the loop does beside
    for number in range(3, 8):
        own = [values[staying] for values in drawn(whole, number)]
        assert are_equal(own, drawn(smaller, number, staying))


def test_goes_on_from_a_state_with_the_same_draws(part):
    sampler, _ = start(part)
    for number in range(3):
        drawn(sampler, number)
    state = {name: tensor.clone() for name, tensor in sampler.state().items()}
    following = [drawn(sampler, number) for number in range(3, 8)]
    resumed, _ = start(part)
    resumed.load_state(state)
    assert all(are_equal(found, drawn(resumed, number)) for number, found in enumerate(following, start=3))
    # A state is a copy: what happened since has not changed it, and going back works as well.
    sampler.load_state(state)
    assert all(are_equal(found, drawn(sampler, number)) for number, found in enumerate(following, start=3))


def test_a_state_is_no_window_on_the_sampler(part):
    sampler, _ = start(part)
    drawn(sampler, 0)
    state = sampler.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    drawn(sampler, 1)
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in before.items())


def test_says_whether_it_stays_on_the_device(part):
    assert isinstance(start(part)[0].stays_on_device, bool)


def test_a_user_without_room_is_refused_at_the_start(part):
    everything = Pairs(np.zeros(N_ITEMS, np.int64), np.arange(N_ITEMS))
    rejected = RejectedItems([item_sets()[0], ItemSets(N_USERS, N_ITEMS, TRAIN, everything)])
    with pytest.raises(DataError, match=r"own all 9 items .* so no negative can be drawn for them"):
        part.start(SharedWorld(N_USERS, N_ITEMS, TRAIN, 0, MemoryBudget(CPU), rejected=rejected), [0, 1])
