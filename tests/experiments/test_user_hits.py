"""Hits of users in a record."""

import numpy as np
import pytest

from pspns.data.planted import plant
from pspns.experiments._members import changed, make_settings, recipe
from pspns.experiments.user_hits import describe_users, pack, recalls, unpack
from pspns.run import run


@pytest.fixture(scope="module")
def finished():
    tables = changed(
        recipe("plain"),
        {
            "model": {"name": "mf", "embedding_size": 4},
            "training": {"steps": 20},
            "run": {"seeds": (0, 1, 2), "device": "cpu"},
        },
    )
    world = plant("clustered", n_users=60, n_items=60, rng=np.random.default_rng(0), mean_preferences=20)
    return run(world.interactions, make_settings(tables))


def test_the_recall_of_every_user_comes_back(finished):
    users = describe_users(finished)
    seeds = [ranked.per_user["recall@20"] for ranked in finished.model.test]
    assert np.ptp(np.mean(seeds, axis=0)) > 0
    np.testing.assert_allclose(recalls(users, users["hits"], 3), np.mean(seeds, axis=0), rtol=1e-6)
    for mask, replicas in finished.model.test_other_masks.items():
        expected = np.mean([ranked.per_user["recall@20"] for ranked in replicas], axis=0)
        np.testing.assert_allclose(recalls(users, users["hits_other_masks"][mask], 3), expected, rtol=1e-6)
    for judged in finished.baselines:
        found = recalls(users, users["baselines"][judged.name]["hits"], 1)
        np.testing.assert_allclose(found, judged.test[0].per_user["recall@20"], rtol=1e-6)


def test_counts_survive_as_text_and_others_are_refused():
    counts = np.random.default_rng(0).integers(0, 65_536, size=5000)
    assert unpack(pack(counts)).tolist() == counts.tolist()
    assert unpack(pack(np.array([], dtype=np.int64))).tolist() == []
    for wrong in ([-1], [65_536]):
        with pytest.raises(ValueError, match="from 0 to 65,535"):
            pack(np.array(wrong))
