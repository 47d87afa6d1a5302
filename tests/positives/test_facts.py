"""What is said of the constructed pairs, against counts made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from toy import CPU, make_world, random_pairs

from pspns.data.split import Pairs
from pspns.global_svd import GlobalSvd
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.positives._facts import describe_positives, positives_words
from pspns.positives.agreement import AgreementPositives
from pspns.positives.merged import MergedPositives
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.positives.repeated import RepeatedPositives
from pspns.shapes import Ground, PositivePairs, World
from pspns.weightings.exponential import ExponentialWeighting


def by_hand() -> World:
    """3 users, 4 items; of 4 train pairs one is missing, two are agreed, one pair is injected and one was dropped."""
    train = Pairs(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 3]))
    pairs = PositivePairs(
        users=np.array([0, 0, 0, 1]),
        items=np.array([0, 1, 2, 1]),
        copies=np.array([200, 200, 1, 1], dtype=np.uint8),
        pair_weights=np.ones(4, dtype=np.float32),
        is_observed=np.array([True, True, False, True]),
        is_global=np.array([True, True, True, False]),
    )
    return World(
        n_users=3,
        n_items=4,
        train=train,
        data_seed=0,
        memory=MemoryBudget(CPU),
        pairs=pairs,
        n_dropped=1,
        user_weights=np.array([0.5, 2.0, 0.0], dtype=np.float32),
        rejected=ItemSets(3, 4, train),
    )


def test_counts_by_hand():
    assert describe_positives(by_hand(), PspPositives(rank=2)) == {
        "pairs": 4,
        "visits_an_epoch": 402,
        "observed": 3,
        "agreed": 2,
        "injected": 1,
        "observed_left_out": 1,
        "dropped_because_held_out": 1,
        "user_weights": {"mean": 1.25, "least": 0.5, "most": 2.0},
        "svd": {
            "rank": 2,
            "computed_rank": 2,
            "exact": True,
            "oversampling": None,
            "power_passes": None,
            "seed_agreement": 1.0,
        },
    }


def test_words_by_hand():
    facts = describe_positives(by_hand(), PspPositives(rank=2))
    facts["pairs"] = 1_234_567
    assert positives_words(facts) == (
        "positives: 1,234,567 pairs, 402 visits an epoch; 2 agreed, 1 injected, 1 dropped because held out; "
        "two seeds of the SVD share 100.0 % of their proposals"
    )


@pytest.mark.parametrize("builder", [ObservedPositives(), RepeatedPositives(copies=4)], ids=["observed", "repeated"])
def test_nothing_is_said_of_an_svd_where_there_is_none(builder):
    ground = Ground(20, 15, random_pairs(20, 15, 80, np.random.default_rng(0)), 0, MemoryBudget(CPU))
    facts = describe_positives(make_world(ground.train, 20, 15, pairs=builder.build(ground)), builder)
    assert "svd" not in facts
    assert (facts["agreed"], facts["injected"], facts["observed_left_out"]) == (0, 0, 0)
    assert positives_words(facts) == (
        f"positives: {len(ground.train)} pairs, {facts['visits_an_epoch']} visits an epoch"
    )
    assert facts["visits_an_epoch"] == len(ground.train) * getattr(builder, "copies", 1)


def test_counts_add_up():
    ground = Ground(40, 30, random_pairs(40, 30, 200, np.random.default_rng(0)), 0, MemoryBudget(CPU))
    for builder in (PspPositives(rank=5, copies=3), MergedPositives(rank=5), AgreementPositives(rank=5, copies=7)):
        facts = describe_positives(make_world(ground.train, 40, 30, pairs=builder.build(ground)), builder)
        assert facts["observed"] + facts["injected"] == facts["pairs"]
        assert facts["visits_an_epoch"] == facts["pairs"] + facts["agreed"] * (getattr(builder, "copies", 1) - 1)
        assert 0 < facts["agreed"] < facts["observed"] == len(ground.train)
        assert (facts["injected"] == 0) == isinstance(builder, AgreementPositives)
        assert facts["user_weights"] == {"mean": 1, "least": 1, "most": 1}


def test_how_the_randomized_svd_was_made():
    train = random_pairs(1020, 1010, 5000, np.random.default_rng(0))
    ground = Ground(1020, 1010, train, 0, MemoryBudget(CPU))
    builder = MergedPositives(rank=12)
    world = make_world(train, 1020, 1010, pairs=builder.build(ground))
    svd = describe_positives(world, builder)["svd"]
    assert (svd["rank"], svd["computed_rank"], svd["exact"]) == (12, 12, False)
    assert (svd["oversampling"], svd["power_passes"]) == (10, 7)
    assert svd["seed_agreement"] == builder.seed_agreement(ground)
    assert 0 < svd["seed_agreement"] < 1
    exact = describe_positives(world, MergedPositives(rank=12, exact=True))["svd"]
    assert (exact["exact"], exact["oversampling"], exact["power_passes"]) == (True, None, None)
    assert exact["seed_agreement"] == 1


def test_the_rank_of_a_shared_svd_is_told_beside_the_rank_that_proposes():
    ground = Ground(40, 30, random_pairs(40, 30, 200, np.random.default_rng(0)), 0, MemoryBudget(CPU))
    for at_least, computed_rank in ((0, 5), (12, 12), (64, 30)):
        world = replace(make_world(ground.train, 40, 30), svd=GlobalSvd(at_least=at_least))
        svd = describe_positives(world, MergedPositives(rank=5))["svd"]
        assert (svd["rank"], svd["computed_rank"]) == (5, computed_rank)


def test_weights_too_small_for_a_number_are_told_and_not_left_out():
    train = random_pairs(20, 15, 80, np.random.default_rng(0))
    weights = ExponentialWeighting(sensitivity=1e6).weights(np.bincount(train.users))
    facts = describe_positives(make_world(train, 20, 15, user_weights=weights), ObservedPositives())
    assert facts["user_weights"] == {"mean": 0, "least": 0, "most": 0}


def test_proposals_are_not_made_again_where_all_of_them_were_built(monkeypatch):
    train = random_pairs(1020, 1010, 5000, np.random.default_rng(0))
    ground, builder = Ground(1020, 1010, train, 0, MemoryBudget(CPU)), MergedPositives(rank=12)
    pairs = builder.build(ground)
    agreement = builder.seed_agreement(ground)
    # Without one of them they must be made again, or the share would be of the rest.
    assert builder.seed_agreement(ground, pairs.only(np.arange(len(pairs)) != pairs.is_global.argmax())) == agreement
    monkeypatch.setattr(MergedPositives, "propose", None)
    assert builder.seed_agreement(ground, pairs) == agreement
