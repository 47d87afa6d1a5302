import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.kernels.merging import count_common, merge_rows

rows = st.lists(
    st.tuples(st.sets(st.integers(0, 12), max_size=9), st.sets(st.integers(0, 12), max_size=9)), min_size=1, max_size=6
)


def compressed(sets):
    starts = np.cumsum([0, *map(len, sets)])
    return starts, np.array([number for one in sets for number in sorted(one)], dtype=np.int64)


@settings(max_examples=200, deadline=None)
@given(rows)
def test_equals_sets(rows):
    a, b = zip(*rows, strict=True)
    n_common = np.full(len(rows), 99)
    count_common(*compressed(a), *compressed(b), n_common)
    assert n_common.tolist() == [len(one & other) for one, other in rows]
    starts, expected = compressed([one | other for one, other in rows])
    merged, is_in_a, is_in_b = np.full(len(expected), 99), np.zeros(len(expected), bool), np.zeros(len(expected), bool)
    merge_rows(*compressed(a), *compressed(b), starts, merged, is_in_a, is_in_b)
    assert merged.tolist() == expected.tolist()
    assert is_in_a.tolist() == [number in one for one, other in rows for number in sorted(one | other)]
    assert is_in_b.tolist() == [number in other for one, other in rows for number in sorted(one | other)]
