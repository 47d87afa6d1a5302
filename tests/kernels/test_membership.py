import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.kernels.membership import mark_members

sets = st.lists(st.sets(st.integers(0, 9), max_size=8), min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(sets, st.data())
def test_equals_sets(sets, data):
    starts = np.cumsum([0, *map(len, sets)])
    members = np.array([number for one in sets for number in sorted(one)], dtype=np.int64)
    rows = np.array(data.draw(st.lists(st.integers(0, len(sets) - 1), min_size=1, max_size=6)))
    # −1 stands for an empty place, 10 for an item beyond all: neither may match a neighbouring row's.
    wanted = np.tile(np.arange(-1, 11), (len(rows), 1))
    is_member = np.ones(wanted.shape, dtype=np.bool_)
    mark_members(starts, members, rows, wanted, is_member)
    assert is_member.tolist() == [[number in sets[row] for number in range(-1, 11)] for row in rows]
