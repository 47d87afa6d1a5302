"""What each protocol makes of the constructed pairs: dropped or kept, weighed, rejected, masked."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from toy import CPU, given_split

from pspns.components import find_part, part_names
from pspns.data.interactions import Interactions
from pspns.data.split import Split
from pspns.evaluation.protocol import PROTOCOLS
from pspns.memory import MemoryBudget
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.run import build_world, prepare_rankings, run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.shapes import Ground
from pspns.training.settings import TrainingSettings
from pspns.weightings.log import LogWeighting

N_USERS, N_ITEMS = 40, 30
MEMORY = MemoryBudget(CPU)
PSP = PspPositives(rank=6, copies=3)


@pytest.fixture(scope="module")
def split() -> Split:
    given = given_split(N_USERS, N_ITEMS, 320, seed=4)
    return Split.from_parts(given.interactions, given.parts, "toy")


def settings(positives=PSP, protocol="strict") -> Settings:
    return Settings(
        positives=positives,
        weighting=LogWeighting(sensitivity=0.5),
        training=TrainingSettings(steps=2, batch_size=64),
        evaluation=EvaluationSettings(k=(N_ITEMS,), select_by="recall@5", inactive=5),
        run=RunSettings(protocol=protocol, device="cpu", baselines=False),
    )


def world_of(split: Split, protocol: str, positives=PSP):
    return build_world(split, settings(positives, protocol), PROTOCOLS[protocol], MEMORY)


def keys(*parts) -> set[tuple[int, int]]:
    return {pair for part in parts for pair in zip(part.users.tolist(), part.items.tolist(), strict=True)}


def row_set(pairs) -> set[tuple]:
    """All that is said of each pair."""
    columns = (pairs.users, pairs.items, pairs.copies, pairs.pair_weights, pairs.is_observed, pairs.is_global)
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.fixture(scope="module")
def built(split):
    """What the builder makes of train, before any protocol."""
    return PSP.build(Ground(split.n_users, split.n_items, split.train, 0, MEMORY))


def test_the_split_tells_the_protocols_apart(split, built):
    assert len(keys(built) & keys(split.valid)) >= 3
    assert len(keys(built) & keys(split.test)) >= 3


@pytest.mark.parametrize("protocol", ["strict", "best-on-test"])
def test_held_out_pairs_stay_where_the_rule_does_not_know_them(split, built, protocol):
    world = world_of(split, protocol)
    assert row_set(world.pairs) == row_set(built)
    assert world.n_dropped == 0


def test_published_drops_exactly_what_is_held_out(split, built):
    world = world_of(split, "published")
    held_out = keys(split.valid, split.test)
    assert row_set(world.pairs) == {row for row in row_set(built) if row[:2] not in held_out}
    assert world.n_dropped == len(keys(built) & held_out) > 0
    assert keys(world.pairs) >= keys(split.train)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_weights_count_the_pairs_that_are_left(split, protocol):
    world = world_of(split, protocol)
    n_left = [sum(user == u for user, _ in keys(world.pairs)) for u in range(split.n_users)]
    np.testing.assert_allclose(world.user_weights, [1 / np.log(1 + 0.5 * n) for n in n_left], rtol=1e-6)


def test_dropping_is_felt_in_the_weights_of_those_who_lose_pairs_alone(split, built):
    strict, published = world_of(split, "strict"), world_of(split, "published")
    losers = {user for user, _ in keys(built) & keys(split.valid, split.test)}
    assert 0 < len(losers) < split.n_users
    heavier = np.flatnonzero(published.user_weights > strict.user_weights).tolist()
    assert set(heavier) == losers
    others = sorted(set(range(split.n_users)) - losers)
    assert np.array_equal(published.user_weights[others], strict.user_weights[others])


def test_a_user_who_loses_all_pairs_weighs_nothing():
    """Under `global` all that is proposed to a user may be held out; nothing is then left to count."""
    # Rank 1 ranks by popularity: user 3 owns one item and is proposed item 0, which is held out.
    train = np.array([(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 1), (3, 1)])
    held_out = np.array([(3, 0), (3, 2)])
    split = Split.from_parts(*_parts(train, held_out), "toy")
    world = world_of(split, "published", find_part("positives", "global")(rank=1))
    assert 3 not in world.pairs.users
    assert world.n_dropped == 1
    assert world.user_weights[3] == 0
    assert (world.user_weights[:3] > 0).all()


def _parts(train: np.ndarray, held_out: np.ndarray):
    """The arguments of Split.from_parts: of the two held-out pairs the first is validation, the second test."""
    rows = np.concatenate([train, held_out])
    interactions = Interactions.from_arrays(rows[:, 0], rows[:, 1])
    valid, test = (tuple(row) for row in held_out.tolist())
    place = {valid: 1, test: 2}
    pairs = zip(interactions.users.tolist(), interactions.items.tolist(), strict=True)
    return interactions, np.array([place.get(pair, 0) for pair in pairs], np.int8)


@pytest.mark.parametrize("name", part_names("positives"))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rejected_are_train_and_where_the_rule_says_so_the_pairs(split, protocol, name):
    part = find_part("positives", name)
    world = world_of(split, protocol, part(rank=6) if hasattr(part, "propose") else part())
    users, items = torch.arange(N_USERS)[:, None], torch.arange(N_ITEMS)
    found = set(map(tuple, torch.nonzero(world.rejected.contains(users, items)).tolist()))
    assert found == (keys(split.train) if protocol == "best-on-test" else keys(split.train, world.pairs))


@dataclass(frozen=True)
class FixedScores:
    """A scorer whose scores the test knows."""

    table: torch.Tensor  # [users, items]
    n_replicas: int = 1

    def scores(self, users, replica):
        return self.table[users]


@pytest.mark.parametrize("protocol", ["strict", "published"])
def test_masks(split, protocol):
    """At k = all items recall tells which held-out items are masked, the place of the first hit which others are."""
    world = world_of(split, protocol)
    rankings = prepare_rankings(split, settings(protocol=protocol), PROTOCOLS[protocol], world.pairs.as_pairs(), MEMORY)
    scorer = FixedScores(torch.rand(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(0)))
    constructed = keys(world.pairs)
    known = {
        "strict": {"valid": keys(split.train), "test": keys(split.train, split.valid)},
        "published": {"valid": keys(split.train) | constructed, "test": keys(split.train) | constructed},
    }[protocol]
    for part, ranking in (("valid", rankings.valid), ("test", rankings.test)):
        held_out = getattr(split, part)
        judged = ranking.judge(scorer, 0)
        for user, recall, mrr in zip(
            ranking.users.tolist(), judged.per_user["recall@30"], judged.per_user["mrr@30"], strict=True
        ):
            wanted = {i for u, i in keys(held_out) if u == user}
            offered = [i for i in torch.argsort(-scorer.table[user]).tolist() if (user, i) not in known[part]]
            assert recall == pytest.approx(len(wanted & set(offered)) / len(wanted))
            first = min((n for n, item in enumerate(offered, 1) if item in wanted), default=np.inf)
            assert mrr == pytest.approx(1 / first)


def test_a_run_carries_the_rule_through():
    """Positives, facts and masks of a whole run are those of its world."""
    given = given_split(N_USERS, N_ITEMS, 320, seed=4)
    split = Split.from_parts(given.interactions, given.parts, "toy")
    for protocol in ("strict", "published"):
        finished, world = run(given, settings(protocol=protocol)), world_of(split, protocol)
        assert keys(finished.positives) == keys(world.pairs)
        assert finished.positives_facts["dropped_because_held_out"] == world.n_dropped
        assert set(finished.rankings.test_other_masks) == {"train"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_observed_pairs_are_never_dropped(split, protocol):
    world = world_of(split, protocol, ObservedPositives())
    assert keys(world.pairs) == keys(split.train)
    assert world.n_dropped == 0
