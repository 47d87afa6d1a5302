"""Groups of users by activity: by brute force from a run, and out of its record."""

import numpy as np
import pytest
from forged_records import N_INACTIVE, N_USERS, forged

from pspns.data.planted import plant
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Seen, describe_cell
from pspns.experiments.user_groups import groups, tenths
from pspns.run import run

UNIFORM = Cell("planted", "mf", "uniform")


@pytest.fixture(scope="module")
def finished():
    """A run in UNIFORM some users have nothing in the test, and some of the test have nothing in train."""
    world = plant(
        "clustered", n_users=200, n_items=50, rng=np.random.default_rng(1), mean_preferences=20, mean_interactions=4
    )
    terms = Terms(
        max_steps=10, seeds=2, device="cpu", changes=(("model.embedding_size", 4), ("evaluation.inactive", 15))
    )
    made = run(world.interactions, UNIFORM.settings(terms, "planted"))
    return made, describe_cell(made, UNIFORM, [])


def test_the_others_are_all_who_are_judged_and_not_among_the_least_active(finished):
    made, record = finished
    judged = made.rankings.test.users
    assert (judged >= made.split.n_users).any()
    counts = np.bincount(made.split.train.users, minlength=made.split.n_users)
    inactive = set(sorted(range(made.split.n_users), key=lambda user: (counts[user], user))[:15])
    is_inactive = np.array([user in inactive for user in judged.tolist()])
    assert 0 < is_inactive.sum() < 15
    found = groups(Seen("", record))
    for name, inside in (("inactive", is_inactive), ("other", ~is_inactive)):
        assert found[name].users == inside.sum()
        for metric in ("recall@20", "precision@20", "recall@30", "ndcg@20"):
            expected = np.mean([replica.per_user[metric][inside].mean() for replica in made.model.test])
            assert found[name].figures[metric] == pytest.approx(expected, rel=1e-6)
    assert found["inactive"].figures["recall@20"] != pytest.approx(found["other"].figures["recall@20"])


def test_tenths_are_those_of_the_record(finished):
    made, record = finished
    found = tenths(Seen("", record))
    judged = made.rankings.test.users
    counts = np.bincount(made.split.train.users, minlength=made.split.n_users)
    order = sorted(range(made.split.n_users), key=lambda user: (counts[user], user))
    for place, group in enumerate(found):
        members = [user for rank, user in enumerate(order) if rank * 10 // len(order) == place]
        inside = np.isin(judged, members)
        assert group.users == inside.sum()
        assert group.mean_train_pairs == pytest.approx(counts[members].mean())
        if group.users:
            expected = np.mean([replica.per_user["recall@20"][inside].mean() for replica in made.model.test])
            assert group.figures["recall@20"] == pytest.approx(expected, rel=1e-6)
    assert len(found) == 10


def test_groups_are_of_the_records_own_mask_and_model():
    record = forged(UNIFORM)
    assert groups(Seen("", record))
    for other in (Seen("", record, "train"), Seen("", record).of_baseline("svd")):
        assert groups(other) == {}
        assert tenths(other) == []


@pytest.mark.parametrize(("n_judged", "n_all"), [(0, N_USERS), (N_INACTIVE, N_INACTIVE)])
def test_there_are_no_two_groups_where_one_is_empty(n_judged, n_all):
    record = forged(UNIFORM)
    record["groups"][f"least_active_{N_INACTIVE}"]["users"] = n_judged
    record["evaluated"]["test"]["users"] = n_all
    assert groups(Seen("", record)) == {}
    del record["groups"][f"least_active_{N_INACTIVE}"]
    assert groups(Seen("", record)) == {}
