"""SRNS beside a slow one that keeps memory and history in lists, and at the edges of its rule."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from sampler_worlds import (
    SmallWorld,
    batch_of,
    each_row,
    in_proportion,
    p_value,
    random_view,
    scores_of,
    view_of,
    view_with_scores,
)
from scipy.special import expit, logit

from pspns.errors import SettingsError
from pspns.negatives.srns import RememberedNegatives
from pspns.shapes import Embeddings

BATCHES_AN_EPOCH = (2, 3, 2)


def calm_view(world, seed):
    """Small scores, so that float32 tells their sigmoids apart."""
    view = random_view(world.n_users, world.n_items, len(world.seeds), seed=seed)
    return view_of([Embeddings(view.final.users.detach() / 2, view.final.items.detach() / 2)])


def memory_of(world):
    """`[replicas, users, memory]`."""
    return world.sampler.state()["memory"].numpy()


def set_memory(world, memory):
    state = world.sampler.state()
    memory = torch.as_tensor(memory).expand(state["memory"].shape).contiguous()
    world.sampler.load_state({**state, "memory": memory})


class GivenFresh:
    """In place of rejected items: the items that are to join the memory of each row."""

    def __init__(self, fresh):
        self._fresh = torch.as_tensor(fresh)

    def draw_outside(self, users, n, stream):
        stream.count_call()
        return self._fresh.expand(*users.shape, n)


class SlowMemory:
    """The rule, row by row."""

    def __init__(self, part, memory):
        self.part = part
        self.memory = [[list(items) for items in own] for own in memory]
        self.history = [[] for _ in memory]  # of each replica: tables [users, items] of scores, the newest last

    def choose(self, batch, scores):
        return np.array([self._choice(batch, scores, *row) for row in each_row(batch)]).reshape(batch.users.shape)

    def _choice(self, batch, scores, replica, _, user, item):
        def worth(k):
            deviation = 0.0
            if self.history[replica]:
                then = [expit(table[user, k] - table[user, item]) for table in self.history[replica][-5:]]
                deviation = np.sqrt(np.mean([(x - np.mean(then)) ** 2 for x in then]))
            if self.part.variance_only:
                return deviation
            warmth = 1.0
            if self.part.warm_up:
                warmth = min(1.0, int(batch.epochs[replica]) / self.part.warm_up)
            now = expit(scores[replica, user, k] - scores[replica, user, item])
            return now + self.part.variance_weight * warmth * deviation

        return max(self.memory[replica][user], key=worth)

    def renew(self, batch, scores, fresh, fractions):
        """Once for each user: by the last of their rows that is alive."""
        last = {(r, user): row for r, row, user, _ in each_row(batch) if batch.live[r, row] > 0}
        for (r, user), row in last.items():
            keys = {}
            for place, item in enumerate([*self.memory[r][user], *fresh[r, row]]):
                noise = -np.log(-np.log(fractions[r, row, place]))
                keys.setdefault(item, scores[r, user, item] / self.part.temperature + noise)
            self.memory[r][user] = sorted(keys, key=keys.get)[-self.part.memory :]

    def take_order(self, memory):
        """What is remembered is a set; the noise goes by places."""
        for own, found in zip(self.memory, memory, strict=True):
            assert [set(items) for items in own] == [set(items) for items in found]
        self.memory = [[list(items) for items in own] for own in memory]


PARTS = {
    "plain": RememberedNegatives(memory=3, fresh=6, temperature=1.0, warm_up=4),
    "moving": RememberedNegatives(memory=2, fresh=9, temperature=10.0, warm_up=4, variance_weight=30.0),
    "warm at once": RememberedNegatives(memory=3, fresh=6, temperature=0.3, warm_up=0, variance_weight=10.0),
    "scores only": RememberedNegatives(memory=3, fresh=6, temperature=1.0, variance_weight=0.0),
    "variance only": RememberedNegatives(memory=3, fresh=6, temperature=1.0, variance_only=True),
    "forgets": RememberedNegatives(memory=3, fresh=6, temperature=1.0, warm_up=4, forgets=True),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_choices_and_memories_are_those_of_the_slow_one(part):
    """Over 30 batches with a model that moves, epochs of different lengths, and rows that only fill the block."""
    world = SmallWorld(part)
    slow = SlowMemory(part, memory_of(world))
    for number in range(30):
        world.view = calm_view(world, number)
        ended = [r for r, n in enumerate(BATCHES_AN_EPOCH) if number and number % n == 0]
        if ended:
            world.sampler.end_epoch(ended, world.view)
        for replica in ended:
            slow.history[replica].append(world.scores[replica])
            if part.forgets:
                slow.memory[replica] = [list(items) for items in memory_of(world)[replica]]
        batch = world.batch(number, 20, epochs=torch.tensor([number // n for n in BATCHES_AN_EPOCH]))
        batch.live[:, 17:] = 0
        # One call for fresh items, one for the noise.
        fresh = world.world.rejected.draw_outside(batch.users, part.fresh, world.stream(2 * number)).numpy()
        fractions = world.stream(2 * number + 1).fractions(20, part.memory + part.fresh).numpy()
        assert np.array_equal(world.items(batch), slow.choose(batch, world.scores))
        slow.renew(batch, world.scores, fresh, fractions)
        slow.take_order(memory_of(world))


# Choosing


def history_world(now, history, **settings):
    """One user who remembers two items, 1 and 2; `now` and `history` are the values of σ(s_uk − s_ui) for both."""
    part = RememberedNegatives(memory=2, fresh=1, **settings)

    def view(values):
        return view_with_scores([[0.0, *logit(values), 0.0]])

    owned = np.array([[[True, False, False, False]]])
    world = SmallWorld(part, owned=owned, own_sets=(0,), seeds=(0,), view=view(now))
    for values in history:
        world.sampler.end_epoch([0], view(values))
    set_memory(world, [1, 2])
    return world


def choice(world, epochs):
    return world.items(batch_of([[0]], [[0]], epochs=[epochs])).item()


# Item 1 scores 0.60 at all times; item 2 now 0.50, and 0.1 and 0.9 at two ends of epochs: its deviation is 0.4.
MOVING = {"now": [0.6, 0.5], "history": [[0.6, 0.1], [0.6, 0.9]]}


@pytest.mark.parametrize(
    ("weight", "epochs", "expected"),
    [
        (0.24, 9, 1),  # 0.5 + 0.24 · 0.4 = 0.596. (The deviation of a sample is 0.566, which would make 0.636.)
        (0.26, 9, 2),  # 0.5 + 0.26 · 0.4 = 0.604
        (0.30, 3, 1),  # three quarters of it: 0.5 + 0.30 · 0.75 · 0.4 = 0.590
        (0.40, 3, 2),  # 0.5 + 0.40 · 0.75 · 0.4 = 0.620
        (0.40, 4, 2),
        (0.40, 1, 1),  # a quarter: 0.540
        (9.00, 0, 1),  # before an epoch has ended nothing but the present score counts
    ],
)
def test_a_moving_score_counts_more_and_more(weight, epochs, expected):
    world = history_world(**MOVING, variance_weight=weight, warm_up=4)
    assert choice(world, epochs) == expected


def test_a_warm_up_of_no_epochs_is_over_at_once():
    world = history_world(**MOVING, variance_weight=0.26, warm_up=0)
    assert choice(world, 0) == 2


def test_only_five_ends_of_epochs_are_remembered():
    still = [[0.6, 0.5]] * 5
    assert choice(history_world([0.6, 0.5], [[0.6, 0.01], *still[:4]], variance_weight=9.0, warm_up=1), 5) == 2
    assert choice(history_world([0.6, 0.5], [[0.6, 0.01], *still], variance_weight=9.0, warm_up=1), 6) == 1


def test_variance_only_leaves_the_present_score_out():
    calm = history_world([0.99, 0.01], [[0.6, 0.45], [0.6, 0.55]], variance_weight=1.0, warm_up=1, variance_only=True)
    assert choice(calm, 2) == 2
    assert choice(history_world([0.99, 0.01], [[0.6, 0.45], [0.6, 0.55]], variance_weight=1.0, warm_up=1), 2) == 1
    # Nor does it wait for an end of the warm-up.
    assert choice(history_world(**MOVING, warm_up=50, variance_only=True), 0) == 2


@pytest.mark.parametrize("n_ended", [0, 1, 4])
def test_without_movement_the_highest_score_is_chosen(n_ended):
    """No history, one end of an epoch, or always the same: v is 0, whatever its weight."""
    world = SmallWorld(RememberedNegatives(memory=3, fresh=5, variance_weight=1e3, warm_up=0))
    past, world.view = calm_view(world, 1), calm_view(world, 2)
    for _ in range(n_ended):
        world.sampler.end_epoch([0, 1, 2], past)
    batch, memory = world.batch(epochs=n_ended), memory_of(world)
    found = world.items(batch)
    for replica, row, user, _ in each_row(batch):
        assert found[replica, row] == max(memory[replica, user], key=world.scores[replica, user].__getitem__)


def test_with_movement_another_one_is_chosen():
    world = SmallWorld(RememberedNegatives(memory=3, fresh=5, variance_weight=1e3, warm_up=0))
    for seed in (1, 2):
        world.sampler.end_epoch([0, 1, 2], calm_view(world, seed))
    batch, memory = world.batch(epochs=2), memory_of(world)
    found = world.items(batch)
    best = [max(memory[r, user], key=world.scores[r, user].__getitem__) for r, _, user, _ in each_row(batch)]
    assert (found.ravel() != best).mean() > 0.3


def test_history_is_each_replicas_own():
    world = SmallWorld(RememberedNegatives(memory=3, fresh=5, variance_weight=1e3, warm_up=0))
    quiet = SmallWorld(RememberedNegatives(memory=3, fresh=5, variance_weight=1e3, warm_up=0))
    for seed in (1, 2):
        world.sampler.end_epoch([1], calm_view(world, seed))
    batch = world.batch(epochs=torch.tensor([0, 2, 0]))
    found, expected = world.items(batch), quiet.items(batch)
    assert np.array_equal(found[[0, 2]], expected[[0, 2]])
    assert not np.array_equal(found[1], expected[1])


# Remembering


def test_memories_begin_as_uniform_draws():
    # 2,000 places for each of 30 users: an item that is a third more likely than others would be seen.
    world = SmallWorld(RememberedNegatives(memory=2000))
    counts = np.stack([[np.bincount(items, minlength=world.n_items) for items in own] for own in memory_of(world)])
    assert p_value(counts, in_proportion(np.ones(()), world.free)) > 1e-4


@pytest.mark.parametrize("forgets", [False, True])
def test_a_memory_is_always_full_and_never_has_a_rejected_item(forgets):
    world = SmallWorld(RememberedNegatives(memory=3, fresh=4, temperature=0.5, forgets=forgets))
    has_changed = 0
    for number in range(200):
        if number % 5 == 4:
            world.sampler.end_epoch([number % 3], world.view)
        before = memory_of(world)
        batch = world.batch(number, 8)
        found, memory = world.items(batch), memory_of(world)
        for replica, row, user, _ in each_row(batch):
            assert found[replica, row] in before[replica, user]
        assert memory.shape == (3, world.n_users, 3)
        assert np.take_along_axis(world.free, memory, -1).all()
        has_changed += (before != memory).any()
    assert has_changed > 150


def test_no_item_is_remembered_twice_if_there_are_others():
    world = SmallWorld(RememberedNegatives(memory=3, fresh=60))  # of at most 13 items, all of which will be seen
    world.sample(world.everybody(1))
    assert all(len(set(items)) == 3 for own in memory_of(world) for items in own)
    # Where fewer items are free than are remembered, some are there twice, and all are there.
    crowded = SmallWorld(RememberedNegatives(memory=14, fresh=60))
    crowded.sample(crowded.everybody(1))
    for replica, user in np.ndindex(crowded.free.shape[:2]):
        assert set(memory_of(crowded)[replica, user]) == set(np.flatnonzero(crowded.free[replica, user]))


def chances_of_staying(weights, n):
    """Of each set of n items drawn one after the other without replacement, by enumerating all orders."""
    chances = {}
    for order in permutations(weights, n):
        chance, left = 1.0, sum(weights.values())
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        chances[frozenset(order)] = chances.get(frozenset(order), 0.0) + chance
    return chances


@pytest.mark.parametrize(("temperature", "n_kept"), [(1.0, 2), (0.5, 2), (10.0, 2), (1.0, 3)])
def test_items_stay_in_proportion_without_replacement(temperature, n_kept):
    """5,000 users with the same scores, the same memory and the same fresh items, some of them there twice."""
    n_users, scores = 5000, np.array([0.3, -0.8, 1.1, 0.0, 0.7, 0.0])
    owned = np.zeros((1, n_users, 6), bool)
    owned[..., 5] = True  # the positive
    users, items = torch.ones(n_users, 2, 1), torch.tensor(scores, dtype=torch.float32)[:, None, None].repeat(1, 2, 1)
    world = SmallWorld(
        RememberedNegatives(memory=n_kept, fresh=5, temperature=temperature),
        owned=owned, own_sets=(0, 0), seeds=(0, 1), view=view_of([Embeddings(users, items)]),
    )  # fmt: skip
    world.sampler._rejected = GivenFresh([2, 3, 3, 4, 1])
    start = torch.tensor([0, 1, 2])[:n_kept]  # which are fresh, too, but for 0
    found = []
    for _ in range(2):
        set_memory(world, start)
        world.sample(world.everybody(1))
        found.extend(frozenset(items) for own in memory_of(world).tolist() for items in own)

    def p_of(times):
        weights = {item: times[item] * np.exp(scores[item] / temperature) for item in range(5)}
        chances = chances_of_staying(weights, n_kept)
        counts = np.array([[found.count(kept) for kept in chances]])
        assert counts.sum() == len(found) == 20_000
        return p_value(counts, np.array([[*chances.values()]]))

    assert p_of([1, 1, 1, 1, 1]) > 1e-4
    assert p_of([1, 1, 1, 1.2, 1]) < 1e-4  # so the test does see that 3, there twice, counts once


def test_only_the_best_of_all_free_items_are_left_when_it_is_cold():
    """α = 0, τ → 0, and so many fresh items that all are among them: the globally hardest item."""
    world = SmallWorld(RememberedNegatives(memory=2, fresh=400, temperature=1e-3, variance_weight=0.0))
    batch = world.everybody(1)
    ranked = np.where(world.free, world.scores, -np.inf).argsort(-1)[..., ::-1]
    before = world.items(batch)
    assert not np.array_equal(before, ranked[..., 0])  # the memory was random
    assert np.array_equal(np.sort(memory_of(world), -1), np.sort(ranked[..., :2], -1))
    assert np.array_equal(world.items(batch), ranked[..., 0])


@pytest.mark.parametrize(
    ("fresh", "live", "expected"),
    [
        ([5, 6, 7], [1, 1, 1], 7),
        ([7, 6, 5], [1, 1, 1], 5),  # the last row is heard, not the best
        ([5, 6, 7], [1, 1, 0], 6),  # but for rows that only fill the block
        ([5, 6, 7], [1, 0, 0], 5),
        ([5, 6, 7], [0, 1, 0], 6),
        ([5, 6, 7], [0, 0, 0], 4),  # of which none is
    ],
)
def test_of_a_users_rows_the_last_live_one_renews_the_memory(fresh, live, expected):
    """One item is remembered, and it is cold: each row would take its own fresh item, which outscores item 4."""
    owned = np.zeros((1, 2, 9), bool)
    owned[..., 0] = True
    world = SmallWorld(
        RememberedNegatives(memory=1, fresh=2, temperature=1e-3),
        owned=owned, own_sets=(0,), seeds=(0,), view=view_with_scores([np.arange(9.0)] * 2),
    )  # fmt: skip
    set_memory(world, [4])
    # User 1 has a row in between, whose memory must be its own.
    world.sampler._rejected = GivenFresh(np.array([[fresh[0]] * 2, [fresh[1]] * 2, [8, 8], [fresh[2]] * 2]))
    batch = batch_of([[0, 0, 1, 0]], [[0, 0, 0, 0]], live=[[live[0], live[1], 1, live[2]]])
    assert world.items(batch).tolist() == [[4, 4, 4, 4]]  # chosen before the memory is renewed
    assert memory_of(world).tolist() == [[[expected], [8]]]


def test_forgets_fills_memories_at_random_after_every_epoch():
    plain, forgetful = (
        SmallWorld(RememberedNegatives(memory=1000, fresh=1, forgets=forgets)) for forgets in (False, True)
    )
    seen = [memory_of(forgetful)]
    for replicas in ([0, 1, 2], [0, 1, 2], [1]):
        before = memory_of(plain)
        for world in (plain, forgetful):
            world.sampler.end_epoch(replicas, world.view)
        assert np.array_equal(memory_of(plain), before)
        seen.append(memory_of(forgetful))
    for before, after in pairwise(seen[:3]):
        assert (before != after).mean() > 0.5
    assert np.array_equal(seen[2][[0, 2]], seen[3][[0, 2]])  # whose epoch did not end
    assert (seen[2][1] != seen[3][1]).mean() > 0.5
    counts = np.stack([[np.bincount(items, minlength=forgetful.n_items) for items in own] for own in seen[3]])
    assert p_value(counts, in_proportion(np.ones(()), forgetful.free)) > 1e-4


def test_scores_of_the_past_are_those_of_the_snapshots():
    world = SmallWorld(RememberedNegatives())
    views = [calm_view(world, seed) for seed in range(7)]
    for view in views:
        world.sampler.end_epoch([0, 2], view)
    world.sampler.end_epoch([1], views[3])
    batch = world.batch()
    items = torch.arange(world.n_items).expand(3, 64, -1).contiguous()
    found = world.sampler._snapshots.score(batch.users, items).numpy()  # [replicas, rows, items, 5]
    assert world.sampler._snapshots.is_there().sum(-1).tolist() == [5, 1, 5]
    tables = [scores_of(view.final) for view in views]
    for place, number in enumerate([5, 6, 2, 3, 4]):  # the newest two took the places of the oldest
        for replica in (0, 2):
            expected = tables[number][replica, batch.users[replica].numpy()]
            np.testing.assert_allclose(found[replica, ..., place], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1, ..., 0], tables[3][1, batch.users[1].numpy()], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": 0}, r"memory must be at least 1, got 0; change \[negatives\] memory"),
        ({"fresh": 0}, r"fresh must be at least 1, got 0; change \[negatives\] fresh"),
        ({"temperature": 0.0}, r"temperature must be above 0, got 0; change \[negatives\] temperature"),
        ({"temperature": float("nan")}, r"temperature must be a finite number, got nan"),
        (
            {"variance_weight": -1.0},
            r"variance_weight must be at least 0, got -1; change \[negatives\] variance_weight",
        ),
        ({"variance_weight": float("inf")}, r"variance_weight must be a finite number, got inf"),
        ({"warm_up": -1}, r"warm_up must be at least 0, got -1; change \[negatives\] warm_up"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        RememberedNegatives(**settings)


def test_each_seed_begins_with_a_memory_of_its_own():
    world = SmallWorld(RememberedNegatives(memory=6), own_sets=(0, 0, 0))
    first, second, third = world.sampler._memory
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)
    alone = SmallWorld(RememberedNegatives(memory=6), own_sets=(0,), seeds=world.seeds[1:2])
    assert torch.equal(alone.sampler._memory[0], second)
