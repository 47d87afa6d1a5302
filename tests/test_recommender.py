from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pspns.api import fit
from pspns.data.split import Pairs, Split
from pspns.errors import DataError, SettingsError
from pspns.models._dot_product import DotProduct
from pspns.models.popular import Counts
from pspns.recommender import Recommender

MODELS = ("mf", "svd", "ease", "popular")


def items_of(part: Pairs, user: int) -> set[int]:
    return set(part.items[part.users == user].tolist())


def brute_force(scores: Any, left_out: set[int], k: int) -> list[int]:
    """All items sorted by score, the lower number first among equals."""
    by_score = sorted(range(len(scores)), key=lambda item: (-scores[item], item))
    return [item for item in by_score if item not in left_out][:k]


def hand_made(scorer: Any, replica: int = 0) -> Recommender:
    """Three users in train (ids 7, 8, 10), one held out only (9); five items in train (ids a … e), f held out only."""
    split = Split(
        train=Pairs(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 4])),
        valid=Pairs(np.array([0, 3]), np.array([2, 4])),
        test=Pairs(np.array([0, 3]), np.array([3, 5])),
        n_users=3,
        n_items=5,
        user_ids=np.array([7, 8, 10, 9]),
        item_ids=np.array(["a", "b", "c", "d", "e", "f"], dtype=object),
        made_by="hand",
    )
    return Recommender(scorer, replica, split, {})


def one_dimensional(*item_vectors: list[float]) -> DotProduct:
    """Every user has the vector 1, so that an item's vector is its score; one row for each replica."""
    return DotProduct(torch.ones(3, len(item_vectors), 1), torch.tensor(item_vectors, dtype=torch.float32).T[..., None])


class TestAgainstBruteForce:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("exclude", ["all", "train", "none"])
    def test_lists_of_everybody(self, fitted: Callable[[str], Any], name: str, exclude: str) -> None:
        model = fitted(name).model
        split = model.split
        assert len(split.user_ids) > split.n_users, "the world should hold users unknown to train"
        found = model.recommend(k=7, exclude=exclude)
        lists = found.group_by("user", maintain_order=True).agg("item", "score", "rank", "how")
        assert lists["user"].to_list() == split.user_ids.tolist()
        parts = {"all": (split.train, split.valid, split.test), "train": (split.train,), "none": ()}[exclude]
        for user, (_, items, scores, ranks, hows) in enumerate(lists.iter_rows()):
            left_out = set.union(set(), *(items_of(part, user) for part in parts))
            if user < split.n_users:
                # In a block of rows, because a product of another shape may round differently.
                block = model.scorer.scores(torch.full((32,), user), model.replica)[0].numpy()
                assert set(hows) == {"model"}
            else:
                have = sorted((items_of(split.valid, user) | items_of(split.test, user)) & set(range(split.n_items)))
                block = model.scorer.fold_in(torch.tensor(have), model.replica).numpy()
                assert set(hows) == {"folded in"}
            expected = brute_force(block, left_out, 7)
            assert items == split.item_ids[expected].tolist()
            assert ranks == list(range(1, len(expected) + 1))
            np.testing.assert_array_equal(np.float32(scores), block[expected].astype(np.float32))

    def test_ties_go_to_the_lower_item_number(self) -> None:
        model = hand_made(one_dimensional([1.0, 2.0, 1.0, 2.0, 1.0]))
        assert model.recommend(8, k=5, exclude="none")["item"].to_list() == ["b", "d", "a", "c", "e"]

    def test_the_chosen_replica_is_served(self) -> None:
        scorer = one_dimensional([5, 4, 3, 2, 1], [1, 2, 3, 4, 5])
        assert hand_made(scorer, 0).recommend(8, k=2)["item"].to_list() == ["a", "c"]
        assert hand_made(scorer, 1).recommend(8, k=2)["item"].to_list() == ["e", "d"]
        assert hand_made(scorer, 0).recommend(items="c", k=2)["item"].to_list() == ["a", "b"]
        assert hand_made(scorer, 1).recommend(items="c", k=2)["item"].to_list() == ["e", "d"]

    def test_the_replica_best_on_validation_is_served(self, fitted: Callable[[str], Any]) -> None:
        model = fitted("mf").model
        values = model.result["valid"]["recall@20"]["per_seed"]
        assert len(values) == 3
        assert model.replica == model.result["served_replica"] == int(np.argmax(values))


class TestWhatIsLeftOut:
    @pytest.mark.parametrize(
        ("exclude", "expected"),
        [("all", ["e"]), ("train", ["e", "d", "c"]), ("none", ["e", "d", "c", "b", "a"])],
    )
    def test_exclude(self, exclude: str, expected: list[str]) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        assert model.recommend(7, k=10, exclude=exclude)["item"].to_list() == expected

    def test_someone_who_has_everything_gets_nothing(self) -> None:
        split = Split(
            Pairs(np.array([0, 0, 1]), np.array([0, 1, 0])),
            Pairs(np.array([], dtype=int), np.array([], dtype=int)),
            Pairs(np.array([], dtype=int), np.array([], dtype=int)),
            n_users=2,
            n_items=2,
            user_ids=np.array(["all", "half"], dtype=object),
            item_ids=np.array([1, 2]),
            made_by="hand",
        )
        model = Recommender(Counts(torch.tensor([2.0, 1.0])), 0, split, {})
        assert model.recommend("all").is_empty()
        found = model.recommend(["all", "half"])
        assert found.rows() == [("half", 1, 2, 1.0, "model")]

    def test_a_k_beyond_all_items_gives_what_there_is(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        assert len(model.recommend(8, k=10**12, exclude="none")) == 5


class TestNewUsers:
    @pytest.mark.parametrize("name", MODELS)
    def test_folding_in_is_the_scorers_own(self, fitted: Callable[[str], Any], name: str) -> None:
        model = fitted(name).model
        have = [3, 11]
        given = model.split.item_ids[have].tolist()
        found = model.recommend(items=given, k=6)
        scores = model.scorer.fold_in(torch.tensor(have), model.replica).numpy()
        assert found["item"].to_list() == model.split.item_ids[brute_force(scores, set(have), 6)].tolist()
        assert set(found["how"]) == {"folded in"}
        assert set(found["user"]) == {"new user"}
        with_known = model.recommend(items=given, k=6, exclude="none")["item"].to_list()
        assert with_known == model.split.item_ids[brute_force(scores, set(), 6)].tolist()

    def test_repeated_items_count_once_and_order_does_not_matter(self, fitted: Callable[[str], Any]) -> None:
        model = fitted("ease").model
        a, b = model.split.item_ids[[3, 11]].tolist()
        once = model.recommend(items=[a, b])
        assert once.equals(model.recommend(items=[b, a, a]))

    def test_unknown_items_are_named(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        with pytest.raises(DataError, match=r"1 of 2 items are not in the model, the first is 'zz'"):
            model.recommend(items=["a", "zz"])

    def test_one_item_need_not_be_a_list(self) -> None:
        model = hand_made(Counts(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])))
        assert model.recommend(items="e", k=2).equals(model.recommend(items=["e"], k=2))

    def test_items_only_held_out_parts_know_tell_nothing(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        found = model.recommend(items=["f"], k=2)
        # b is in train twice, a and e once.
        assert found["item"].to_list() == ["b", "a"]
        assert set(found["how"]) == {"popularity"}

    def test_a_user_known_from_held_out_parts_is_folded_in(self) -> None:
        model = hand_made(Counts(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])))
        assert model.recommend(9, k=2).select("user", "item", "how").rows() == [
            (9, "d", "folded in"),
            (9, "c", "folded in"),
        ]
        assert model.recommend(9, k=2, exclude="train")["item"].to_list() == ["e", "d"]

    def test_of_an_unknown_user_nothing_is_known_but_what_is_popular(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        found = model.recommend(12345, k=3)
        assert found["item"].to_list() == ["b", "a", "e"]
        assert found["score"].to_list() == [2, 1, 1]
        assert set(found["how"]) == {"popularity"}
        assert not model.knows_user(12345)
        assert model.knows_user(9)

    def test_the_order_asked_for_is_kept(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        found = model.recommend([9, 10, 77, 7, 10], k=1)
        assert found["user"].to_list() == [9, 10, 77, 7, 10]
        assert found["how"].to_list() == ["folded in", "model", "popularity", "model", "model"]

    def test_nobody(self) -> None:
        found = hand_made(one_dimensional([1, 2, 3, 4, 5])).recommend([])
        assert found.is_empty()
        assert found.schema == {
            "user": pl.Int64,
            "rank": pl.Int32,
            "item": pl.String,
            "score": pl.Float32,
            "how": pl.String,
        }


class TestIds:
    @pytest.mark.parametrize(
        "users",
        [["007", "7", "ü", "日本", "a b,c", "\x1b[31m"], [0, -5, 2**63 - 1], [1, 2**64 - 1, 2**63]],
        ids=["text", "int64", "uint64"],
    )
    def test_ids_keep_type_and_value(self, users: list[Any], tmp_path: Path) -> None:
        dtype = pl.UInt64 if users[-1] == 2**63 else None
        frame = pl.DataFrame(
            {
                "user": pl.Series([user for user in users for _ in range(2)], dtype=dtype),
                "item": ["x", "é"] + ["é", "007"] * (len(users) - 1),
            }
        )
        fit(frame, model="popular", split="none", out=tmp_path / "run")
        from pspns.api import open_model

        model = open_model(tmp_path / "run")
        found = model.recommend(users, k=1)
        assert found["user"].to_list() == users
        assert found["item"].to_list() == ["007"] + ["x"] * (len(users) - 1)
        assert found["how"].to_list() == ["model"] * len(users)
        everybody = model.recommend(k=1)
        assert set(everybody["user"]) == set(users)
        assert everybody.schema["user"] == (dtype or (pl.String if isinstance(users[0], str) else pl.Int64))

    def test_numbers_and_their_plain_text_are_the_same_id(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        as_number = model.recommend(7, k=2)
        for user in ("7", np.int64(7), np.uint8(7), [7], np.array([7]), pl.Series([7]), ("7",)):
            assert model.recommend(user, k=2).equals(as_number)
        assert model.recommend("007", k=1).select("user", "how").row(0) == ("007", "popularity")

    def test_numbers_reach_text_ids(self, fitted: Callable[[str], Any]) -> None:
        frame = pl.DataFrame({"user": ["1", "1", "b", "b"], "item": [1, 2, 1, 3]})
        model = fit(frame, model="popular", split="none")
        assert model.recommend(1, k=1).row(0)[:3] == ("1", 1, 3)

    def test_a_user_that_does_not_fit_the_column_makes_it_text(self) -> None:
        model = hand_made(one_dimensional([1, 2, 3, 4, 5]))
        assert model.recommend([2**70, 7], k=1)["user"].to_list() == [str(2**70), "7"]

    @pytest.mark.parametrize("user", [1.0, True, b"7", np.bool_(True), [None], [["a"]]])
    def test_what_cannot_be_an_id(self, user: Any) -> None:
        with pytest.raises(SettingsError, match="an id must be text or a whole number, got"):
            hand_made(one_dimensional([1, 2, 3, 4, 5])).recommend(user)


@pytest.mark.parametrize("k", [0, -1, 2.5, "5", True, None])
def test_impossible_k(k: Any) -> None:
    with pytest.raises(SettingsError, match="k must be a whole number of at least 1, got"):
        hand_made(one_dimensional([1, 2, 3, 4, 5])).recommend(7, k=k)


def test_unknown_exclude() -> None:
    with pytest.raises(SettingsError, match="exclude must be one of all, train, none, got 'trian'"):
        hand_made(one_dimensional([1, 2, 3, 4, 5])).recommend(7, exclude="trian")
