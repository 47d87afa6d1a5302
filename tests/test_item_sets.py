import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pspns.data.split import Pairs
from pspns.errors import DataError
from pspns.item_sets import ItemSets, RejectedItems
from pspns.rng import ReplicaStream

N_USERS, N_ITEMS = 5, 7
owned_sets = st.lists(st.sets(st.integers(0, N_ITEMS - 1)), min_size=N_USERS, max_size=N_USERS)


def sets_from(owned: list[set[int]]) -> ItemSets:
    pairs = sorted((user, item) for user, items in enumerate(owned) for item in items)
    users, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return ItemSets(N_USERS, N_ITEMS, Pairs(users, items))


@given(owned_sets)
def test_contains_and_entries_equal_python_sets(owned):
    sets = sets_from(owned)
    users, items = torch.meshgrid(torch.arange(N_USERS), torch.arange(N_ITEMS), indexing="ij")
    assert sets.contains(users, items).tolist() == [[i in owned[u] for i in range(N_ITEMS)] for u in range(N_USERS)]
    asked = torch.tensor([3, 0, 3, 4])
    rows, found = sets.entries(asked)
    for row, user in enumerate(asked.tolist()):
        assert found[rows == row].tolist() == sorted(owned[user])


class Ranks:
    """Instead of chance: rank r for row r, modulo how many there are."""

    def integers(self, below, n):
        return (torch.arange(below.shape[1]) % below)[..., None].expand(-1, -1, n)


@given(owned_sets)
def test_each_rank_maps_to_the_item_of_that_rank_outside(owned):
    sets = sets_from(owned)
    for user, items in enumerate(owned):
        outside = [item for item in range(N_ITEMS) if item not in items]
        users = torch.full((1, len(outside)), user)
        assert sets._draw_by_torch(users, 2, Ranks()).tolist() == [[[item, item] for item in outside]]


def test_draws_are_uniform_over_what_is_outside():
    sets = sets_from([{0, 3, 6}, set(), {1}, {0, 1, 2, 3, 4, 6}, {5}])
    users = torch.arange(N_USERS).repeat(4000)[None]
    drawn = sets.draw_outside(users, 1, ReplicaStream([0], "negatives")).squeeze()
    for user, outside in ((0, [1, 2, 4, 5]), (1, list(range(7))), (3, [5])):
        items, counts = np.unique(drawn[users[0] == user].numpy(), return_counts=True)
        assert items.tolist() == outside
        if len(outside) > 1:
            assert stats.chisquare(counts).pvalue > 1e-4


def test_union_and_numbers_beyond_the_shape():
    first, second = Pairs(np.array([0, 1]), np.array([1, 9])), Pairs(np.array([0, 8]), np.array([1, 2]))
    sets = ItemSets(2, 4, first, second)  # item 9 and user 8 do not exist here
    assert sets.sizes.tolist() == [1, 0]
    assert sets.items.tolist() == [1]


def test_without_any_pairs():
    sets = ItemSets(2, 3)
    assert not sets.contains(torch.tensor([0, 1]), torch.tensor([2, 2])).any()
    assert sets.entries(torch.tensor([0, 1]))[1].tolist() == []
    assert sets.draw_outside(torch.tensor([[1]]), 50, ReplicaStream([0], "x")).unique().tolist() == [0, 1, 2]


def test_a_user_who_owns_everything_is_an_error_with_the_remedy():
    with pytest.raises(DataError, match=r"1 of 5 users own all 7 items \(the first is user number 2\)"):
        sets_from([set(), set(), set(range(7)), {1}, set()]).check_room("negative")
    sets_from([set(range(6))] * 5).check_room("negative")


@given(st.lists(owned_sets, min_size=1, max_size=4))
def test_stacked_sets_are_those_of_users_numbered_one_set_after_the_other(several):
    stack = ItemSets.stacked([sets_from(owned) for owned in several])
    pairs = [(w * N_USERS + u, i) for w, owned in enumerate(several) for u, items in enumerate(owned) for i in items]
    users, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = ItemSets(N_USERS * len(several), N_ITEMS, Pairs(users, items))
    assert vars(stack).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        assert torch.equal(torch.as_tensor(getattr(stack, name)), torch.as_tensor(value)), name


# The first and the last replica share their sets; each leaves every user at least one item.
OWNED = ([{0, 3, 6}, set(), {1}, {0, 1, 2, 3, 4, 6}, {5}], [set(), {2, 3}, {0, 1, 2, 3, 5, 6}, {6}, {0}])
OWN_SETS = (0, 1, 0)


def rejected_items() -> RejectedItems:
    sets = [sets_from(owned) for owned in OWNED]
    return RejectedItems([sets[place] for place in OWN_SETS])


@pytest.mark.parametrize("kept", [[0, 1, 2], [1], [2, 1]])
def test_each_replica_rejects_its_own_sets_and_still_does_when_others_have_left(kept, monkeypatch):
    rejected = rejected_items()
    rejected.keep(torch.tensor(kept))
    own = [OWNED[OWN_SETS[replica]] for replica in kept]
    users, items = torch.meshgrid(torch.arange(N_USERS), torch.arange(N_ITEMS), indexing="ij")
    users, items = (table.expand(len(kept), -1, -1) for table in (users, items))
    inside = [[[i in owned[u] for i in range(N_ITEMS)] for u in range(N_USERS)] for owned in own]
    assert rejected.contains(users, items).tolist() == inside
    assert rejected.contains(users[..., 0], items[..., 0]).tolist() == [[row[0] for row in table] for table in inside]

    # Row r of a user asks for their item of rank r among those outside: every one, in rising order, and again.
    asked = torch.arange(N_USERS).repeat_interleave(N_ITEMS).expand(len(kept), -1)
    monkeypatch.setattr(ItemSets, "draw_outside", ItemSets._draw_by_torch)
    drawn = rejected.draw_outside(asked, 1, Ranks())[..., 0].tolist()
    for owned, items_of_replica in zip(own, drawn, strict=True):
        for row, item in enumerate(items_of_replica):
            outside = [i for i in range(N_ITEMS) if i not in owned[row // N_ITEMS]]
            assert item == outside[row % len(outside)]


def test_a_replica_draws_the_same_alone_and_in_company():
    users = torch.arange(N_USERS).repeat(20).expand(3, -1)
    together = rejected_items().draw_outside(users, 2, ReplicaStream([4, 5, 6], "negatives"))
    for replica, place in enumerate(OWN_SETS):
        alone = RejectedItems([sets_from(OWNED[place])])
        drawn = alone.draw_outside(users[:1], 2, ReplicaStream([4 + replica], "negatives"))
        assert torch.equal(together[replica], drawn[0])


def test_room_is_checked_in_every_replicas_sets():
    with_room, full = sets_from([set()] * 5), sets_from([set(), set(), set(range(7)), {1}, set()])
    RejectedItems([with_room, with_room]).check_room("negative")
    with pytest.raises(DataError, match=r"1 of 5 users own all 7 items \(the first is user number 2\), so no negative"):
        RejectedItems([with_room, full]).check_room("negative")
