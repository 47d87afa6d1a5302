import numpy as np
import pytest
import torch
from toy import given_split

from pspns.data.split import Pairs, Split
from pspns.errors import SettingsError
from pspns.evaluation.ranking import FullRanking, mean_in_shards
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct

CPU = torch.device("cpu")


def test_equals_a_loop_over_users():
    given = given_split(50, 40, 500)
    split = Split.from_parts(given.interactions, given.parts, "toy")
    rng = np.random.default_rng(1)
    scorer = DotProduct(*(torch.from_numpy(rng.normal(size=(n, 2, 8)).astype(np.float32)) for n in (50, 40)))
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=40))
    ranking = FullRanking(split.test, [split.train, split.valid], counts, 50, (5, 3), MemoryBudget(CPU))
    for replica in range(2):
        found = ranking.judge(scorer, replica)
        scores = scorer.scores(torch.arange(50), replica).numpy()
        for part in (split.train, split.valid):
            scores[part.users, part.items] = -np.inf
        recalls, precisions, offered, popularity = [], [], set(), []
        for user in np.unique(split.test.users):
            relevant = set(split.test.items[split.test.users == user].tolist())
            best = np.argsort(-scores[user], kind="stable")[:5].tolist()
            recalls.append(len(relevant & set(best)) / len(relevant))
            precisions.append(len(relevant & set(best[:3])) / 3)
            offered |= set(best)
            popularity.append(counts[best].double().mean())
        np.testing.assert_allclose(found.per_user["recall@5"], recalls)
        np.testing.assert_allclose(found.per_user["precision@3"], precisions)
        assert found.overall["recall@5"] == pytest.approx(np.mean(recalls))
        assert found.overall["item-coverage@5"] == pytest.approx(len(offered) / 40)
        assert found.overall["mean-popularity@5"] == pytest.approx(np.mean(popularity))
    assert ranking.n_held_out.tolist() == np.unique(split.test.users, return_counts=True)[1].tolist()


def test_held_out_items_unknown_to_train_count_as_missed():
    # One user, items 0 and 1 in train's numbering, item 2 only held out.
    counts = torch.tensor([3, 1])
    scorer = DotProduct(torch.ones(1, 1, 1), torch.tensor([[[1.0]], [[2.0]]]))
    held_out = Pairs(np.array([0, 0]), np.array([1, 2]))
    ranking = FullRanking(held_out, [Pairs(np.array([0]), np.array([0]))], counts, 1, (2,), MemoryBudget(CPU))
    assert ranking.judge(scorer, 0).overall["recall@2"] == 0.5


def test_users_unknown_to_train_are_judged_on_what_is_popular_and_counted():
    counts = torch.tensor([1, 5, 3])
    scorer = DotProduct(torch.ones(1, 1, 1), torch.tensor([[[3.0]], [[2.0]], [[1.0]]]))
    held_out = Pairs(np.array([0, 1]), np.array([0, 1]))
    ranking = FullRanking(held_out, [], counts, 1, (1,), MemoryBudget(CPU))
    assert ranking.n_cold == 1
    assert ranking.judge(scorer, 0).per_user["recall@1"].tolist() == [1.0, 1.0]


def test_cutoffs_must_be_positive():
    with pytest.raises(SettingsError, match="k must be whole numbers of at least 1"):
        FullRanking(Pairs(np.array([0]), np.array([0])), [], torch.ones(1), 1, (0,), MemoryBudget(CPU))


def test_the_mean_over_shards_is_the_mean():
    rng = np.random.default_rng(0)
    users = np.sort(rng.choice(100_000, 20_000, replace=False))
    values = rng.random(20_000)
    assert mean_in_shards(values, users) == pytest.approx(values.mean(), rel=1e-12)
    # Shards computed apart and added up give the same bits: what many machines would do.
    sums = [values[users // 4096 == shard].cumsum()[-1] for shard in np.unique(users // 4096)]
    padded = np.zeros(users.max() // 4096 + 1)
    padded[np.unique(users // 4096)] = sums
    assert mean_in_shards(values, users) == padded.sum() / len(values)
