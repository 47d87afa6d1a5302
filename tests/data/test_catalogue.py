"""The catalogue: every data set is complete, and MovieLens-100K is found, checked and read."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pspns.components import describe_part, field_notes, find_part, part_names
from pspns.data.catalogue import ml_100k
from pspns.data.catalogue.ml_100k import MovieLens100K
from pspns.data.catalogue.planted_clustered import PlantedClustered
from pspns.data.catalogue.planted_low_rank import PlantedLowRank
from pspns.data.catalogue.planted_unstructured import PlantedUnstructured
from pspns.data.planted import plant
from pspns.errors import DataError
from pspns.rng import host_stream

PLANTED = [PlantedLowRank, PlantedClustered, PlantedUnstructured]


@pytest.mark.parametrize("name", part_names("datasets"))
def test_every_data_set_says_what_it_is_and_on_which_terms(name: str) -> None:
    dataset = find_part("datasets", name)
    assert describe_part("datasets", name).endswith(".")
    assert dataset.terms
    assert dataset.citation
    assert set(field_notes(dataset)) == {field.name for field in fields(dataset)}, "every setting is explained"


class TestPlanted:
    @pytest.mark.parametrize("dataset", PLANTED)
    def test_is_the_world_of_its_kind_and_seed(self, dataset: Any) -> None:
        expected = plant(dataset.kind, n_users=1000, n_items=800, rng=host_stream(0, "planted"))
        pairs = dataset().load(None)
        assert np.array_equal(pairs.users, expected.interactions.users)
        assert np.array_equal(pairs.items, expected.interactions.items)
        assert np.array_equal(dataset().plant().is_false, expected.is_false)

    def test_the_three_are_different_kinds(self) -> None:
        assert {dataset.kind for dataset in PLANTED} == {"low-rank", "clustered", "unstructured"}

    @pytest.mark.parametrize(
        "change",
        [
            {"n_users": 150},
            {"n_items": 150},
            {"mean_preferences": 20.0},
            {"mean_interactions": 5.0},
            {"false_positive_share": 0.5},
            {"popularity_skew": 0.1},
            {"seed": 1},
        ],
    )
    def test_every_setting_counts(self, change: dict[str, Any]) -> None:
        small = PlantedLowRank(n_users=100, n_items=100)
        before, after = small.plant(), replace(small, **change).plant()
        same = [
            np.array_equal(getattr(before.interactions, name), getattr(after.interactions, name))
            for name in ("users", "items")
        ]
        assert not all(same)


GROUPLENS = "196\t242\t3\t881250949\n186\t302\t2\t891717742\n22\t242\t5\t878887116\n"
RECBOLE = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + GROUPLENS


@pytest.fixture
def tiny_movielens(monkeypatch: pytest.MonkeyPatch) -> None:
    """MovieLens as if it had three ratings; whoever asks for a download fails."""

    def no_download(*_: object) -> Path:
        raise DataError("no download in this test")

    monkeypatch.setattr(ml_100k, "_EXPECTED", (3, 2, 2, 1))
    monkeypatch.setattr(ml_100k, "fetch_from_package", no_download)


@pytest.mark.usefixtures("tiny_movielens")
class TestMovieLens100K:
    @pytest.mark.parametrize("place", ["ml-100k/u.data", "u.data", "ml-100k/ml-100k.inter", "ml-100k.inter"])
    def test_is_read_from_a_folder(self, tmp_path: Path, place: str) -> None:
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(RECBOLE if path.suffix == ".inter" else GROUPLENS)
        pairs = MovieLens100K().load(tmp_path)
        assert pairs.user_ids[pairs.users].tolist() == [22, 196]
        assert pairs.item_ids[pairs.items].tolist() == [242, 242]
        assert pairs.times is not None
        assert pairs.times.tolist() == [878887116, 881250949]
        assert "1 of 3 rows left out: rating below 3" in pairs.facts

    @pytest.mark.parametrize("folder", [None, "an empty folder"])
    def test_is_fetched_into_the_cache_where_no_folder_has_it(
        self, tmp_path: Path, folder: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def fetch(*arguments: Any) -> Path:
            asked.append(arguments)
            target: Path = arguments[-1]
            target.parent.mkdir(parents=True)
            target.write_text(RECBOLE)
            return target

        monkeypatch.setattr(ml_100k, "fetch_from_package", fetch)
        monkeypatch.setenv("PSPNS_CACHE", str(tmp_path / "cache"))
        if folder is not None:
            (tmp_path / folder).mkdir()
        assert len(MovieLens100K().load(None if folder is None else tmp_path / folder)) == 2
        assert asked[0][-1] == tmp_path / "cache" / "ml-100k" / "ml-100k.inter"
        assert [len(asked[0][place]) for place in (1, 3)] == [64, 64], "two sha256 sums are asked for"

    def test_other_data_under_its_name_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "u.data").write_text(GROUPLENS + "5\t5\t1\t5\n")
        with pytest.raises(DataError, match=r"is not MovieLens-100K: it has 4 ratings, .* expected 3 ratings"):
            MovieLens100K().load(tmp_path)

    def test_unknown_columns_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "ml-100k.inter").write_text(RECBOLE.replace("rating:float", "stars:float"))
        with pytest.raises(DataError, match=r"line 1: the columns are .*stars.*, expected .*rating"):
            MovieLens100K().load(tmp_path)

    def test_what_is_no_number_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "u.data").write_text(GROUPLENS.replace("302", "x"))
        with pytest.raises(DataError, match="expected user, item, rating and time, separated by tabs"):
            MovieLens100K().load(tmp_path)
