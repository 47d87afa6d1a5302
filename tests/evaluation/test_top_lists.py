import numpy as np
import pytest
import torch
from toy import best_by_sorting, random_pairs

from pspns.evaluation import top_lists
from pspns.evaluation.top_lists import TopLists
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget, MemoryBudgetError
from pspns.models._dot_product import DotProduct

CPU = torch.device("cpu")


def scorer_and_known(n_users=70, n_items=45):
    rng = np.random.default_rng(0)
    users, items = (torch.from_numpy(rng.normal(size=(n, 1, 16)).astype(np.float32)) for n in (n_users, n_items))
    return DotProduct(users, items), random_pairs(n_users, n_items, 600, rng)


def test_equals_sorting_the_dense_table():
    scorer, known = scorer_and_known()
    lists = TopLists(ItemSets(70, 45, known), torch.arange(45), 70, MemoryBudget(CPU))
    items, _ = lists.best(scorer, 0, torch.arange(70), 10)
    scores = scorer.scores(torch.arange(70), 0).numpy()
    scores[known.users, known.items] = -np.inf
    assert items.tolist() == best_by_sorting(scores, 10)


def test_any_block_size_gives_the_same_bits(monkeypatch):
    scorer, known = scorer_and_known(300, 500)
    users = torch.arange(300)
    whole = None
    for n_rows in (1, 7, 31, 32, 33, 100, 256, 300):
        monkeypatch.setattr(top_lists, "max_rows", lambda device, n_rows=n_rows: n_rows)
        lists = TopLists(ItemSets(300, 500, known), torch.arange(500), 300, MemoryBudget(CPU))
        found = lists.best(scorer, 0, users, 20)
        whole = whole or found
        assert torch.equal(found[0], whole[0])
        assert torch.equal(found[1], whole[1])


def test_users_unknown_to_train_are_offered_what_is_popular():
    scorer, known = scorer_and_known()
    counts = torch.arange(45).flip(0)
    lists = TopLists(ItemSets(72, 45, known), counts, 70, MemoryBudget(CPU))
    items, _ = lists.best(scorer, 0, torch.tensor([71, 3, 70]), 5)
    assert items[0].tolist() == items[2].tolist() == [0, 1, 2, 3, 4]
    assert items[1].tolist() != [0, 1, 2, 3, 4]


def test_blocks_stay_within_the_budget():
    _, known = scorer_and_known()
    one_row = 16 * 45 / 2**30
    lists = TopLists(ItemSets(70, 45, known), torch.arange(45), 70, MemoryBudget(CPU, gib=40 * one_row))
    assert lists._rows == 40
    with pytest.raises(MemoryBudgetError, match="ranking 45 items needs about"):
        TopLists(ItemSets(70, 45, known), torch.arange(45), 70, MemoryBudget(CPU, gib=31 * one_row))
