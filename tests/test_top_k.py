import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import best_by_sorting

from pspns.top_k import best_items

# Few distinct values, so that ties abound, at the end of the list and elsewhere.
rows = st.lists(
    st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]), min_size=9, max_size=9), min_size=1, max_size=4
)


@settings(max_examples=300)
@given(rows, st.integers(1, 12))
def test_ties_go_to_the_lower_item_and_masked_items_never_appear(rows, k):
    scores = np.array(rows, dtype=np.float32)
    items, values = best_items(torch.from_numpy(scores), k)
    assert items.tolist() == best_by_sorting(scores, k)
    expected = [
        [row[item] if item >= 0 else -np.inf for item in found] for row, found in zip(rows, items.tolist(), strict=True)
    ]
    assert values.tolist() == expected
