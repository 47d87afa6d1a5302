"""Edges and degrees against a table filled by hand."""

import numpy as np
import pytest
from scipy import sparse
from toy import make_world

from pspns.csr import degree_scales
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.models._graph import check_edges, edge_weights
from pspns.shapes import PositivePairs

# Train has (0,0) (0,1) (1,1) (2,0); the positives lose (2,0), gain (2,2), and copy two pairs. Nobody has item 3.
TRAIN = Pairs(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]))
PAIRS = PositivePairs(
    users=np.array([0, 0, 1, 2]),
    items=np.array([0, 1, 1, 2]),
    copies=np.array([3, 1, 1, 255], np.uint8),
    pair_weights=np.array([9, 9, 9, 9], np.float32),
    is_observed=np.array([True, True, True, False]),
    is_global=np.array([True, False, False, True]),
)
TABLES = {
    "train": [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    "merged": [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]],
    "merged-weighted": [[3, 1, 0, 0], [0, 1, 0, 0], [0, 0, 255, 0], [0, 0, 0, 0]],
}


@pytest.mark.parametrize("edges", TABLES)
def test_whose_pairs_are_the_edges_and_how_much_they_weigh(edges):
    found = edge_weights(make_world(TRAIN, 4, 4, pairs=PAIRS), edges)
    assert found.toarray().tolist() == TABLES[edges]
    assert found.dtype == np.float32


def test_scales_are_inverse_roots_of_summed_weights_and_0_without_edges():
    users, items = degree_scales(sparse.csr_array(np.array(TABLES["merged-weighted"], np.float32)))
    np.testing.assert_allclose(users, [1 / 2, 1, 1 / np.sqrt(255), 0], rtol=1e-15)
    np.testing.assert_allclose(items, [1 / np.sqrt(3), 1 / np.sqrt(2), 1 / np.sqrt(255), 0], rtol=1e-15)


def test_degrees_are_summed_in_float64():
    # 2²⁴ + 1 is no float32: summed there, the last edges of a very popular item would not count.
    weights = sparse.csr_array(np.array([[2.0**24], [1.0], [1.0], [1.0]], np.float32))
    assert degree_scales(weights)[1][0] == 1 / np.sqrt(2.0**24 + 3)


def test_an_unknown_graph_is_named_with_the_choices():
    with pytest.raises(SettingsError, match=r"graph must be one of train, merged, merged-weighted, got 'marged'"):
        check_edges("marged")
    for edges in TABLES:
        check_edges(edges)
