import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import best_by_sorting, random_pairs

from pspns.item_sets import ItemSets
from pspns.top_k import best_by_torch, best_items

# Few distinct values, so that ties abound, at the end of the list and elsewhere.
rows = st.lists(
    st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]), min_size=9, max_size=9), min_size=1, max_size=4
)


@pytest.mark.parametrize("best", [best_items, best_by_torch])
@settings(max_examples=300, deadline=None)
@given(rows=rows, k=st.integers(1, 12))
def test_ties_go_to_the_lower_item_and_masked_items_never_appear(best, rows, k):
    scores = np.array(rows, dtype=np.float32)
    items, values = best(torch.from_numpy(scores), k)
    assert items.tolist() == best_by_sorting(scores, k)
    expected = [
        [row[item] if item >= 0 else -np.inf for item in found] for row, found in zip(rows, items.tolist(), strict=True)
    ]
    assert values.tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_known_items_are_left_out_and_the_scores_stay_as_they_were(dtype):
    rng = np.random.default_rng(0)
    known = random_pairs(50, 40, 600, rng)
    users = torch.from_numpy(rng.permutation(50)[:20])
    scores = torch.from_numpy(rng.normal(size=(20, 40))).to(dtype)
    before, masked = scores.clone(), scores.numpy().copy()
    for row, user in enumerate(users.tolist()):
        masked[row, known.items[known.users == user]] = -np.inf
    items, values = best_items(scores, 12, ItemSets(50, 40, known), users)
    assert items.tolist() == best_by_sorting(masked, 12)
    assert values.dtype == dtype
    assert torch.equal(scores, before)


def test_rows_that_share_memory_are_ranked_alike():
    # As of a scorer that gives everybody the same scores.
    scores = torch.tensor([1.0, 3.0, 2.0]).expand(4, -1)
    assert best_items(scores, 2)[0].tolist() == [[1, 2]] * 4


def test_nan_comes_first():
    scores = torch.tensor([[1.0, torch.nan, torch.inf, -torch.nan]])
    for best in (best_items, best_by_torch):
        items, values = best(scores, 3)
        assert items.tolist() == [[1, 3, 2]]
        assert values.isnan().tolist() == [[True, True, False]]
