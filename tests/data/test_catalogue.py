"""The catalogue: every data set is complete; those in files are found, known by their counts and split as usual."""

from __future__ import annotations

import gzip
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pspns.components import describe_part, field_notes, find_part, part_names
from pspns.data.catalogue import _movielens
from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts, LocalDataset
from pspns.data.catalogue.epinions import Epinions
from pspns.data.catalogue.gowalla import Gowalla
from pspns.data.catalogue.ml_1m import MovieLens1M
from pspns.data.catalogue.ml_100k import MovieLens100K
from pspns.data.catalogue.pinterest import Pinterest
from pspns.data.catalogue.planted_clustered import PlantedClustered
from pspns.data.catalogue.planted_low_rank import PlantedLowRank
from pspns.data.catalogue.planted_unstructured import PlantedUnstructured
from pspns.data.catalogue.yelp import Yelp
from pspns.data.download import Watch
from pspns.data.interactions import Interactions
from pspns.data.load import load
from pspns.data.planted import plant
from pspns.data.split import GivenSplit
from pspns.data.splits.random import RandomSplit
from pspns.errors import DataError
from pspns.rng import host_stream

PLANTED = [PlantedLowRank, PlantedClustered, PlantedUnstructured]


@pytest.mark.parametrize("name", part_names("datasets"))
def test_every_data_set_says_what_it_is_and_on_which_terms(name: str) -> None:
    dataset = find_part("datasets", name)
    assert describe_part("datasets", name).endswith(".")
    assert all(getattr(dataset.about, field.name) for field in fields(About))
    assert set(field_notes(dataset)) == {field.name for field in fields(dataset)}, "every setting is explained"


class TestPlanted:
    @pytest.mark.parametrize("dataset", PLANTED)
    def test_is_the_world_of_its_kind_and_seed(self, dataset: Any) -> None:
        expected = plant(dataset.kind, n_users=1000, n_items=800, rng=host_stream(0, "planted"))
        pairs = dataset().load(None)
        assert np.array_equal(pairs.users, expected.interactions.users)
        assert np.array_equal(pairs.items, expected.interactions.items)
        assert np.array_equal(dataset().plant().is_false, expected.is_false)

    def test_needs_no_file(self, tmp_path: Path) -> None:
        assert PlantedLowRank().find(tmp_path) is None
        assert PlantedLowRank().get(None) is None

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


@pytest.mark.parametrize("dataset", [Epinions, Pinterest, Yelp, Gowalla])
def test_what_cannot_be_fetched_names_no_address(dataset: Any) -> None:
    assert dataset.about.origin == "provided"
    assert not any(sign in dataset.about.source for sign in ("http", "www.", ".com", ".org"))


class TestCounts:
    known = Counts(users=10, items=20, parts=(80, 10, 10))

    @pytest.mark.parametrize("parts", [(100,), (80, 10, 10), (79, 10, 11), (81, 10, 9)])
    def test_fit_as_they_are_or_rounded_otherwise(self, parts: tuple[int, ...]) -> None:
        assert self.known.fit(replace(self.known, parts=parts))

    @pytest.mark.parametrize(
        "change",
        [{"users": 11}, {"items": 21}, {"parts": (99,)}, {"parts": (80, 10, 11)}, {"parts": (70, 10, 20)}],
    )
    def test_anything_else_does_not_fit(self, change: dict[str, Any]) -> None:
        assert not self.known.fit(replace(self.known, **change))

    def test_rows_that_repeat_pairs_are_an_upper_limit(self) -> None:
        rows = replace(self.known, with_repeats=True)
        assert rows.fit(replace(self.known, parts=(70, 10, 9)))
        assert not rows.fit(replace(self.known, parts=(81, 9, 9)))
        assert rows.words() == "10 × 20, 100 rows, in which pairs repeat"

    def test_are_those_of_the_paper(self) -> None:
        # The paper's table; its users of Yelp and its padded counts of MovieLens-1M mended.
        assert [
            (dataset.known[0].users, dataset.known[0].items, sum(dataset.known[0].parts))
            for dataset in (Pinterest, Yelp, MovieLens1M, Epinions)
        ] == [
            (55_187, 9_916, 1_500_809),
            (29_601, 24_734, 1_374_594),
            (6_039, 3_628, 836_478),
            (11_496, 11_656, 327_942),
        ]


ROWS = "1\t7\n1\t8\n2\t7\n2\t9\n"


def write_parts(folder: Path, **parts: str) -> None:
    folder.mkdir(parents=True)
    for name, rows in parts.items():
        (folder / f"{name}.tsv").write_text(rows)


class TestProvided:
    @pytest.fixture(autouse=True)
    def tiny(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = Counts(users=2, items=3, parts=(2, 1, 1))
        part = Counts(users=1, items=2, parts=(1, 0, 1), note="the first of 2 users")
        for dataset in (Epinions, Yelp, Gowalla):
            monkeypatch.setattr(dataset, "known", (whole,))
        monkeypatch.setattr(Pinterest, "known", (replace(whole, with_repeats=True), part))

    @pytest.mark.parametrize("dataset", [Epinions, Pinterest, Yelp, Gowalla])
    def test_parts_in_its_folder_are_the_split(self, dataset: type[LocalDataset], tmp_path: Path) -> None:
        home = tmp_path / dataset().name
        write_parts(home, train="1\t7\n1\t8\n", valid="2\t7\n", test="2\t9\n")
        assert dataset().find(tmp_path) == dataset().get(tmp_path) == home
        data = dataset().load(tmp_path)
        assert isinstance(data, GivenSplit)
        assert data.parts.tolist() == [0, 0, 1, 2]
        assert f"{dataset.about.title}: {dataset.about.terms}" in data.interactions.facts

    @pytest.mark.parametrize(("dataset", "shares"), [(Epinions, (0.1, 0.2)), (Yelp, (0.1, 0.1))])
    @pytest.mark.parametrize("place", ["{0}/{0}.tsv", "{0}/{0}.tsv.gz", "{0}.tsv"])
    def test_all_pairs_in_one_file_are_split_as_in_the_paper(
        self, dataset: type[LocalDataset], shares: tuple[float, float], place: str, tmp_path: Path
    ) -> None:
        path = tmp_path / place.format(dataset().name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(ROWS.encode()) if path.suffix == ".gz" else ROWS.encode())
        assert dataset().get(tmp_path) == path
        data = dataset().load(tmp_path)
        assert isinstance(data, Interactions)
        assert len(data) == 4
        assert data.usual_split == RandomSplit(valid_share=shares[0], test_share=shares[1])

    @pytest.mark.parametrize("dataset", [Pinterest, Gowalla])
    def test_where_the_parts_were_published_one_file_will_not_do(
        self, dataset: type[LocalDataset], tmp_path: Path
    ) -> None:
        (tmp_path / f"{dataset().name}.tsv").write_text(ROWS)
        assert dataset().find(tmp_path) is None

    def test_part_of_a_data_set_is_said_to_be_one(self, tmp_path: Path) -> None:
        write_parts(tmp_path / "pinterest", train="1\t7\n", test="1\t8\n")
        data = Pinterest().load(tmp_path)
        assert isinstance(data, GivenSplit)
        assert "Pinterest: the first of 2 users" in data.interactions.facts

    def test_repeated_pins_count_once(self, tmp_path: Path) -> None:
        write_parts(tmp_path / "pinterest", train="1\t7\n1\t7\n", valid="1\t8\n", test="2\t9\n")
        assert len(load("pinterest", folder=tmp_path).interactions) == 3

    def test_other_data_under_its_name_are_refused(self, tmp_path: Path) -> None:
        write_parts(tmp_path / "epinions", train=ROWS, test="2\t8\n")
        with pytest.raises(DataError) as caught:
            Epinions().load(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path / 'epinions'} is not the Epinions that is known as 'epinions': it has 2 × 3, 5 pairs: "
            f"4 train, 0 valid, 1 test; expected 2 × 3, 4 pairs: 2 train, 1 valid, 1 test; "
            f"to use it as it is, give its path as the data"
        )

    @pytest.mark.parametrize("folder", [None, "here"])
    def test_missing_files_say_what_was_looked_for_where_and_how_to_obtain_them(
        self, folder: str | None, tmp_path: Path
    ) -> None:
        (tmp_path / "here").mkdir()
        with pytest.raises(DataError) as caught:
            Epinions().load(None if folder is None else tmp_path / folder)
        message = str(caught.value)
        assert "expected epinions/train.*, valid.* and test.*, or epinions/epinions.* with all pairs" in message
        assert (f"{tmp_path / 'here'} does not have it" if folder else "set PSPNS_DATA to one") in message
        assert Epinions.about.source in message

    def test_data_folder_that_does_not_exist_is_not_passed_over(self, tmp_path: Path) -> None:
        for dataset in (Epinions(), MovieLens100K()):
            with pytest.raises(DataError, match="nowhere does not exist; name another"):
                dataset.get(tmp_path / "nowhere")


GROUPLENS = "196{0}242{0}3{0}881250949\n186{0}302{0}2{0}891717742\n22{0}242{0}5{0}878887116\n"
RECBOLE = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + GROUPLENS.format("\t")


class TestMovieLens:
    @pytest.fixture(autouse=True)
    def tiny(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """MovieLens as if it had three ratings; whoever asks for a download fails."""

        def no_download(*_: object) -> Path:
            raise DataError("no download in this test")

        for dataset in (MovieLens100K, MovieLens1M):
            monkeypatch.setattr(dataset, "known", (Counts(users=2, items=1, parts=(1, 0, 1)),))
        monkeypatch.setattr(_movielens, "fetch_from_package", no_download)
        monkeypatch.setenv("PSPNS_CACHE", str(tmp_path / "cache"))

    @pytest.mark.parametrize(
        ("dataset", "place"),
        [
            (MovieLens100K, "ml-100k/u.data"),
            (MovieLens100K, "ml-100k/ml-100k.inter"),
            (MovieLens100K, "ml-100k.inter"),
            (MovieLens1M, "ml-1m/ratings.dat"),
            (MovieLens1M, "ml-1m/ratings.dat.gz"),
            (MovieLens1M, "ml-1m/ml-1m.inter"),
        ],
    )
    def test_ratings_are_read_from_a_folder(self, dataset: type[LocalDataset], place: str, tmp_path: Path) -> None:
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        separator = "::" if "ratings" in place else "\t"
        text = RECBOLE if "inter" in place else GROUPLENS.format(separator)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        assert dataset().find(tmp_path) == path
        pairs = dataset().load(tmp_path)
        assert isinstance(pairs, Interactions)
        assert pairs.user_ids[pairs.users].tolist() == [22, 196]
        assert pairs.item_ids[pairs.items].tolist() == [242, 242]
        assert pairs.times is not None
        assert pairs.times.tolist() == [878887116, 881250949]
        assert "1 of 3 rows left out: rating below 3" in pairs.facts
        assert pairs.usual_split == RandomSplit()

    def test_own_parts_of_a_folder_come_first(self, tmp_path: Path) -> None:
        write_parts(tmp_path / "ml-1m", train="22\t242\n", test="196\t242\n")
        (tmp_path / "ml-1m" / "ratings.dat").write_text(GROUPLENS.format("::"))
        data = MovieLens1M().load(tmp_path)
        assert isinstance(data, GivenSplit)
        assert data.parts.tolist() == [0, 2]

    @pytest.mark.parametrize("dataset", [MovieLens100K, MovieLens1M])
    @pytest.mark.parametrize("folder", [None, "an empty folder"])
    def test_is_fetched_into_the_cache_where_no_folder_has_it(
        self, dataset: type[LocalDataset], folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def fetch(file: Any, target: Path, watch: Watch) -> Path:
            asked.append((file, target))
            target.parent.mkdir(parents=True)
            target.write_text(RECBOLE)
            return target

        monkeypatch.setattr(_movielens, "fetch_from_package", fetch)
        if folder is not None:
            (tmp_path / folder).mkdir()
        assert len(dataset().load(None if folder is None else tmp_path / folder)) == 2  # type: ignore[arg-type]
        [(file, target)] = asked
        name = dataset().name
        assert target == tmp_path / "cache" / name / f"{name}.inter"
        assert [len(file.wheel_sha256), len(file.member_sha256)] == [64, 64]
        assert dataset().find(None) is None, "what is in the cache, but is not the file, does not count"

    def test_what_the_cache_has_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cached = tmp_path / "cache" / "ml-1m" / "ml-1m.inter"
        cached.parent.mkdir(parents=True)
        cached.write_text(RECBOLE)
        monkeypatch.setattr(_movielens, "is_fetched", lambda file, target: target == cached)
        assert MovieLens1M().find(None) == MovieLens1M().get(tmp_path) == cached

    def test_other_ratings_under_its_name_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "ml-100k.inter").write_text(RECBOLE + "5\t5\t4\t5\n")
        with pytest.raises(
            DataError, match=r"is not the MovieLens-100K .*: it has 3 × 2, 3 pairs; expected 2 × 1, 2 pairs"
        ):
            MovieLens100K().load(tmp_path)

    def test_ratings_that_are_no_numbers_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "ml-100k.inter").write_text(RECBOLE.replace("\t2\t", "\tx\t"))
        with pytest.raises(DataError, match=r"ml-100k.inter, line 3"):
            MovieLens100K().load(tmp_path)


FOLDER = os.environ.get("PSPNS_DATA", "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ml-1m", (6_039, 3_628, [669_182, 83_648, 83_648])),
        ("epinions", (11_496, 11_656, [229_559, 32_794, 65_589])),
        ("pinterest", (37_501, 9_836, [925_152, 37_501, 37_501])),
        ("gowalla", (29_858, 40_981, [810_128, 0, 217_242])),
    ],
)
def test_real_files_are_recognised(name: str, expected: tuple[int, int, list[int]]) -> None:
    if not (Path(FOLDER) / name).is_dir():
        pytest.skip(f"set PSPNS_DATA to a folder with the data set {name}, split into train, test and perhaps valid")
    data = load(name, folder=FOLDER)
    assert isinstance(data, GivenSplit)
    pairs = data.interactions
    assert (len(pairs.user_ids), len(pairs.item_ids), np.bincount(data.parts, minlength=3).tolist()) == expected
    assert any("the first 37,501 of 55,187 users" in fact for fact in pairs.facts) == (name == "pinterest")
