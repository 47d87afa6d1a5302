"""Looking up pairs by users, beside loops over lists; replicas may have pairs of their own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from denoiser_worlds import denoised, pair_batch, world_of

from pspns.denoising._own_pairs import OwnPairs

N_USERS, N_ITEMS = 6, 9


def random_world(seed: int, *, copies: bool):
    """User 2 or 3 has nothing; weights and copies differ from pair to pair, and users have weights, too."""
    rng = np.random.default_rng(seed)
    owned = rng.random((N_USERS, N_ITEMS)) < 0.3 + 0.1 * seed
    owned[:, seed] = True
    owned[2 + seed % 2] = False
    world = world_of(owned)
    n = len(world.pairs)
    pairs = replace(
        world.pairs,
        copies=rng.integers(1, 4, n).astype(np.uint8) if copies else np.ones(n, np.uint8),
        pair_weights=rng.random(n).astype(np.float32),
    )
    return replace(world, pairs=pairs, user_weights=rng.random(N_USERS).astype(np.float32))


def company(*, copies: bool):
    """Four replicas; the first and the last share their pairs."""
    first, second, third = (random_world(seed, copies=copies) for seed in range(3))
    worlds = [first, second, third, first]
    return worlds, OwnPairs(denoised(*worlds))


def ids_of(world, user: int) -> list[int]:
    """The numbers of a user's pairs."""
    return [pair for pair, owner in enumerate(world.pairs.users.tolist()) if owner == user]


def visits_of(world, user: int) -> list[int]:
    """The same, as often as an epoch visits them."""
    return [pair for pair in ids_of(world, user) for _ in range(world.pairs.copies[pair])]


EVERYBODY = torch.arange(N_USERS).expand(4, -1)


def test_users_and_their_pairs():
    worlds, pairs = company(copies=False)
    assert pairs.n_pairs.tolist() == [len(world.pairs) for world in worlds]
    assert len(set(pairs.n_pairs.tolist())) == 3
    assert pairs.n_active.tolist() == [5] * 4
    active = pairs.active_users(torch.arange(5).expand(4, -1))
    assert active[:, 2].tolist() == [3, 2, 3, 3]
    assert torch.equal(active[:, [0, 1, 3, 4]], torch.tensor([0, 1, 4, 5]).expand(4, -1))
    assert pairs.sizes(EVERYBODY).tolist() == [
        [len(ids_of(world, user)) for user in range(N_USERS)] for world in worlds
    ]
    expected = [
        [ids_of(world, user)[0] for user in users] for world, users in zip(worlds, active.tolist(), strict=True)
    ]
    assert pairs.first_ids(active).tolist() == expected


def test_pairs_by_their_numbers():
    worlds, pairs = company(copies=True)
    n = min(len(world.pairs) for world in worlds)
    ids = torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(replica)) for replica in range(4)])
    expected = pair_batch(worlds, ids, epochs=[3, 0, 1, 2], live=torch.arange(n) % 2)
    assert torch.equal(pairs.users(ids), expected.users)
    assert torch.equal(pairs.items(ids), expected.items)
    assert torch.equal(pairs.items(ids[..., None].expand(-1, -1, 2))[..., 1], expected.items)
    found = pairs.rows(expected.users, ids, expected)
    assert {name for name, values in vars(expected).items() if torch.equal(values, getattr(found, name))} == {
        "users", "items", "pair_ids", "weights", "live", "epochs",
    }  # fmt: skip


@pytest.mark.parametrize("copies", [False, True])
def test_visits_count_copies(copies):
    worlds, pairs = company(copies=copies)
    found = pairs.n_visits(EVERYBODY)
    assert found.tolist() == [[len(visits_of(world, user)) for user in range(N_USERS)] for world in worlds]
    assert torch.equal(found, pairs.sizes(EVERYBODY)) != copies
    for user in (0, 1, 4, 5):
        users = torch.full((4, 1), user)
        n = int(found[:, user].min())
        visited = pairs.visited(users[..., None], torch.arange(n).expand(4, 1, -1))
        assert visited[:, 0].tolist() == [visits_of(world, user)[:n] for world in worlds]
        last = pairs.visited(users, found[:, user, None] - 1)
        assert last[:, 0].tolist() == [visits_of(world, user)[-1] for world in worlds]
        own = [visits_of(world, user).index(pair) for world, pair in zip(worlds, last[:, 0].tolist(), strict=True)]
        assert pairs.first_visits(users, last)[:, 0].tolist() == own


@pytest.mark.parametrize("copies", [False, True])
def test_replicas_that_stay_find_their_own(copies):
    worlds, pairs = company(copies=copies)
    _, whole = company(copies=copies)
    pairs.keep(torch.tensor([3, 1]))
    users = EVERYBODY[:, [0, 4, 5]]
    places = torch.zeros_like(users)
    for look_up in (
        lambda own, stay: own.sizes(users[stay]),
        lambda own, stay: own.first_ids(users[stay]),
        lambda own, stay: own.n_visits(users[stay]),
        lambda own, stay: own.visited(users[stay], places[stay]),
        lambda own, stay: own.first_visits(users[stay], own.first_ids(users[stay])),
        lambda own, stay: own.active_users(places[stay] + 2),
        lambda own, stay: own.users(places[stay] + 7),
        lambda own, stay: own.items(places[stay] + 7),
        lambda own, stay: own.rows(users[stay], places[stay] + 7, pair_batch(worlds[0], places[stay])).weights,
    ):
        assert torch.equal(look_up(pairs, [3, 1]), look_up(whole, [0, 1, 2, 3])[[3, 1]])
    assert pairs.n_active.tolist() == [5, 5]
    assert torch.equal(pairs.n_pairs, whole.n_pairs[[3, 1]])
