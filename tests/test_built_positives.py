from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils.data import DataLoader

from pspns.api import build_positives
from pspns.built_positives import BuiltPositives
from pspns.errors import SettingsError
from pspns.shapes import PositivePairs

# By hand: three users (one without pairs), four items (one without), copies 3, 1, 2, 1.
PAIRS = PositivePairs(
    users=np.array([0, 0, 2, 2]),
    items=np.array([1, 3, 0, 1]),
    copies=np.array([3, 1, 2, 1], np.uint8),
    pair_weights=np.array([1, 2, 1, 0.5], np.float32),
    is_observed=np.array([True, True, False, True]),
    is_global=np.array([True, False, True, False]),
)
BUILT = BuiltPositives(
    pairs=PAIRS,
    user_weights=np.array([4, 0, 0.25], np.float32),
    user_ids=np.array(["ann", "bob", "007"], dtype=object),
    item_ids=np.array([10, 20, 30, 40]),
    facts={},
)


@pytest.fixture(scope="module")
def built(clicks: pl.DataFrame) -> BuiltPositives:
    return build_positives(clicks, rank=5, copies=3, threads=1)


def rows_of(built: BuiltPositives) -> list[tuple[int, int, int]]:
    pairs = built.pairs
    return list(zip(pairs.users.tolist(), pairs.items.tolist(), pairs.copies.tolist(), strict=True))


class TestFrames:
    def test_pairs_by_hand(self) -> None:
        assert BUILT.frame().to_dict(as_series=False) == {
            "user": ["ann", "ann", "007", "007"],
            "item": [20, 40, 10, 20],
            "copies": [3, 1, 2, 1],
            "weight": [1, 2, 1, 0.5],
            "observed": [True, True, False, True],
            "global": [True, False, True, False],
        }

    def test_users_by_hand(self) -> None:
        assert BUILT.users().to_dict(as_series=False) == {
            "user": ["ann", "bob", "007"],
            "pairs": [2, 0, 2],
            "weight": [4, 0, 0.25],
        }

    def test_frames_agree_with_the_data(self, built: BuiltPositives, clicks: pl.DataFrame) -> None:
        frame, observed = built.frame(), set(clicks.rows())
        assert frame.select("user", "item").is_duplicated().sum() == 0
        assert set(frame.filter("observed").select("user", "item").rows()) == observed
        agreed = frame.filter(pl.col("observed") & pl.col("global"))
        assert 0 < len(agreed) < len(observed)
        assert set(agreed["copies"]) == {3}
        assert set(frame.filter(~(pl.col("observed") & pl.col("global")))["copies"]) == {1}
        counts = Counter(frame["user"].to_list())
        for user, n_pairs, weight in built.users().rows():
            assert n_pairs == counts[user]
            assert weight == pytest.approx(1 / np.log1p(0.01 * n_pairs), rel=1e-6)

    @pytest.mark.parametrize(
        ("users", "dtype"),
        [([5, 2**40, -3], pl.Int64), ([1, 2, 2**64 - 1], pl.UInt64), (["7", "007", "x"], pl.String)],
    )
    def test_ids_keep_their_type(self, tmp_path: Path, users: list[Any], dtype: Any) -> None:
        rows = [(user, item) for place, user in enumerate(users) for item in "abcdef"[place : place + 3]]
        frame = pl.DataFrame({"user": pl.Series([u for u, _ in rows], dtype=dtype), "item": [i for _, i in rows]})
        found = build_positives(frame, rank=2, threads=1)
        found.write(tmp_path)
        for column in (
            found.frame()["user"],
            found.users()["user"],
            pl.read_parquet(tmp_path / "pairs.parquet")["user"],
        ):
            assert column.dtype == dtype
            assert set(column) == set(users)
        assert found.frame()["item"].dtype == pl.String

    def test_parquet_gives_the_frames_back(self, built: BuiltPositives, tmp_path: Path) -> None:
        for some in (built, BUILT):
            some.write(tmp_path)
            assert pl.read_parquet(tmp_path / "pairs.parquet").equals(some.frame())
            assert pl.read_parquet(tmp_path / "users.parquet").equals(some.users())
        assert {path.name for path in tmp_path.iterdir()} == {"pairs.parquet", "users.parquet"}


class TestMatrix:
    def test_copies_are_the_values(self, built: BuiltPositives) -> None:
        for some in (built, BUILT):
            dense = np.zeros((len(some.user_ids), len(some.item_ids)))
            for user, item, copies in rows_of(some):
                dense[user, item] = copies
            matrix = some.matrix()
            assert matrix.format == "csr"
            assert matrix.dtype == np.float32
            assert matrix.has_sorted_indices
            assert np.array_equal(matrix.toarray(), dense)


class TestEdgeIndex:
    def test_by_hand(self) -> None:
        # Users are nodes 0 to 2, so item 1 is node 4.
        assert BUILT.edge_index().tolist() == [[0, 0, 2, 2, 4, 6, 3, 4], [4, 6, 3, 4, 0, 0, 2, 2]]

    def test_each_pair_is_an_edge_both_ways(self, built: BuiltPositives) -> None:
        n_users = len(built.user_ids)
        edges = built.edge_index()
        assert edges.dtype == torch.int64
        assert edges.shape == (2, 2 * len(built.pairs))
        expected = {(user, n_users + item) for user, item, _ in rows_of(built)}
        assert {tuple(edge) for edge in edges.T.tolist()} == expected | {(item, user) for user, item in expected}


class TestDataset:
    def test_visits_by_hand(self) -> None:
        visits = BUILT.dataset()
        found = [tuple(value.item() for value in visits[visit]) for visit in range(7)]
        assert found == [(0, 1, 4), (0, 1, 4), (0, 1, 4), (0, 3, 8), (2, 0, 0.25), (2, 0, 0.25), (2, 1, 0.125)]

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_an_epoch_visits_each_pair_once_for_each_copy(self, built: BuiltPositives, shuffle: bool) -> None:
        dataset = built.dataset()
        loader = DataLoader(dataset, batch_size=64, shuffle=shuffle, generator=torch.Generator().manual_seed(0))
        seen: Counter[tuple[int, int]] = Counter()
        for users, items, weights in loader:
            seen.update(zip(users.tolist(), items.tolist(), strict=True))
            assert weights.tolist() == pytest.approx(built.user_weights[users.numpy()].tolist())
        assert seen == {(user, item): copies for user, item, copies in rows_of(built)}
        assert len(dataset) == seen.total() == built.facts["visits_an_epoch"]

    def test_a_batch_is_its_rows(self) -> None:
        visits: Any = BUILT.dataset()
        batch = [6, 0, 3, 3]
        assert visits.__getitems__(batch) == [visits[visit] for visit in batch]
        assert visits.__getitems__([]) == []

    @pytest.mark.parametrize("visit", [-1, 7, -7, 10**9])
    def test_visits_that_do_not_exist(self, visit: int) -> None:
        visits: Any = BUILT.dataset()
        with pytest.raises(IndexError, match=f"visit {visit} of 7"):
            visits[visit]
        with pytest.raises(IndexError, match="of 7"):
            visits.__getitems__([0, visit])

    def test_copies_may_add_up_to_more_than_a_byte_holds(self) -> None:
        many = replace(PAIRS, copies=np.full(4, 255, np.uint8))
        dataset: Any = replace(BUILT, pairs=many).dataset()
        assert len(dataset) == 1020
        assert [dataset[visit][1].item() for visit in (0, 254, 255, 764, 765, 1019)] == [1, 1, 3, 0, 1, 1]


class TestBuildPositives:
    def test_what_has_no_part_in_building_is_refused(self, clicks: pl.DataFrame) -> None:
        for options, section in (
            ({"batch_size": 5}, "training"),
            ({"model": "svd"}, "model"),
            ({"split": "random"}, "split"),
        ):
            with pytest.raises(
                SettingsError, match=rf"build_positives: \[{section}\] has no part in building positives"
            ):
                build_positives(clicks, **options)

    def test_a_file_of_settings_may_speak_of_more_but_not_of_a_split(
        self, clicks: pl.DataFrame, tmp_path: Path
    ) -> None:
        config = tmp_path / "run.toml"
        config.write_text('[training]\nbatch_size = 5\n[positives]\nname = "observed"\n')
        assert len(build_positives(clicks, config=config).pairs) == len(clicks)
        config.write_text('[split]\nname = "random"\n')
        with pytest.raises(SettingsError, match=r"leave \[split\] out"):
            build_positives(clicks, config=config, rank=3)

    def test_no_data(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="there are no data; give build_positives a frame"):
            build_positives(rank=3)
