from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import given_split

from pspns.api import build_positives
from pspns.built_positives import BuiltPositives
from pspns.components import part_names
from pspns.data.load import load
from pspns.data.planted import Kind, PlantedWorld, plant
from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError
from pspns.positives_quality import Quality

KINDS: tuple[Kind, ...] = ("low-rank", "clustered", "unstructured")
RANKED = {"global", "merged", "merged-weighted", "psp", "agreement"}


def small_world(kind: Kind, false_share: float = 0.25) -> PlantedWorld:
    rng = np.random.default_rng(1)
    sizes = {"n_users": 50, "n_items": 40, "mean_preferences": 12, "mean_interactions": 7}
    return plant(kind, rng=rng, false_positive_share=false_share, **sizes)


def build(data: Any, name: str, **options: Any) -> BuiltPositives:
    return build_positives(data, positives=name, weighting="none", threads=1, **options)


def visits(built: BuiltPositives) -> list[tuple[Any, Any]]:
    """Every pair by its ids, as often as it has copies."""
    rows = built.frame().select("user", "item", "copies").rows()
    return [(user, item) for user, item, copies in rows for _ in range(copies)]


class TestExact:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", part_names("positives"))
    def test_it_is_what_counting_gives(self, kind: Kind, name: str) -> None:
        world = small_world(kind)
        built = build(world.interactions, name, **({"rank": 4} if name in RANKED else {}))
        liked = world.preferences.toarray()
        truth = {(u, i) for u in range(50) for i in range(40) if liked[u, i]}
        visited = visits(built)
        assert built.quality(world) == Quality(
            accuracy=pytest.approx(sum(pair in truth for pair in visited) / len(visited), abs=1e-12),
            coverage=pytest.approx(len(truth & set(visited)) / len(truth), abs=1e-12),
            is_exact=True,
        )

    @pytest.mark.parametrize("false_share", [0.0, 0.1, 0.4])
    def test_observed_pairs_are_as_accurate_as_they_were_planted(self, false_share: float) -> None:
        world = small_world("clustered", false_share)
        expected = 1 - world.is_false.mean()
        assert expected == pytest.approx(1 - false_share, abs=0.5 / len(world.is_false) + 1e-12)
        for name in ("observed", "repeated"):
            assert build(world.interactions, name).quality(world).accuracy == pytest.approx(expected, abs=1e-12)

    def test_copies_count_in_accuracy_and_not_in_coverage(self) -> None:
        world = small_world("low-rank")
        one, five = (build(world.interactions, "psp", rank=4, copies=n).quality(world) for n in (1, 5))
        assert one.coverage == five.coverage
        assert one.accuracy != five.accuracy
        assert one == build(world.interactions, "merged", rank=4).quality(world)

    def test_positives_of_other_ids_are_refused(self) -> None:
        built = build(given_split(5, 6, 12).interactions, "observed")
        built = replace(built, user_ids=np.array(["a", "b", "c", "d", "e"], dtype=object))
        with pytest.raises(DataError, match="user ids of this world are the whole numbers 0 to 49"):
            built.quality(small_world("clustered"))

    def test_data_without_held_out_parts_tell_nothing(self) -> None:
        clicks = given_split(5, 6, 12).interactions
        with pytest.raises(DataError, match=r"needs a planted world, or data with held-out parts .* got Interactions"):
            build(clicks, "observed").quality(clicks)  # type: ignore[arg-type]


class TestEstimate:
    @pytest.mark.parametrize("name", part_names("positives"))
    def test_it_is_what_counting_gives(self, name: str) -> None:
        given = given_split(30, 25, 200, seed=3)
        built = build(given, name, **({"rank": 3} if name in RANKED else {}))
        pairs = list(zip(given.interactions.users.tolist(), given.interactions.items.tolist(), strict=True))
        train, held_out = set(), set()
        for pair, part in zip(pairs, given.parts.tolist(), strict=True):
            (train if part == Part.TRAIN else held_out).add(pair)
        visited = visits(built)
        injected = [pair for pair in visited if pair not in train]
        found = built.quality(given)
        assert found.coverage == pytest.approx(len(held_out & set(visited)) / len(held_out), abs=1e-12)
        assert not found.is_exact
        if not injected:
            assert name in ("observed", "repeated", "agreement")
            assert found.accuracy is None
            assert found.coverage == 0
        else:
            expected = sum(pair in held_out for pair in injected) / len(injected)
            assert found.accuracy == pytest.approx(expected, abs=1e-12)
            assert 0 < expected < 1

    def test_copies_of_injected_pairs_count(self) -> None:
        given = given_split(30, 25, 200, seed=3)
        built = build(given, "merged", rank=3)
        pairs = given.interactions
        held_out = set(zip(pairs.users[given.parts > 0].tolist(), pairs.items[given.parts > 0].tolist(), strict=True))
        copies = np.array([4 if pair in held_out else 1 for pair in built.frame().select("user", "item").rows()])
        found = replace(built, pairs=replace(built.pairs, copies=copies.astype(np.uint8))).quality(given)
        once, n_injected = built.quality(given), built.facts["injected"]
        assert once.accuracy is not None
        hits = round(once.accuracy * n_injected)
        assert found.accuracy == pytest.approx(4 * hits / (n_injected + 3 * hits))
        assert found.coverage == once.coverage

    def test_held_out_users_and_items_that_train_does_not_know_are_missed(self, tmp_path: Path) -> None:
        # Ranked by the first singular vectors, ann is proposed 1 and 2 (her own) and bob 1 and 2: 2 is injected.
        train = "ann,1\nann,2\nbob,1\nbob,3\ncem,1\ncem,2\n"
        for part, rows in {"train": train, "valid": "new,1\n", "test": "bob,2\nann,9\nnew,9\n"}.items():
            (tmp_path / f"{part}.csv").write_text("user,item\n" + rows)
        given = load(tmp_path)
        assert isinstance(given, GivenSplit)
        built = build(tmp_path, "merged", rank=1)
        assert built.facts["injected"] == 1
        assert ("bob", 2) in visits(built)
        assert built.quality(given) == Quality(accuracy=1.0, coverage=0.25, is_exact=False)

    def test_nothing_held_out(self) -> None:
        given = given_split(5, 6, 12)
        everything = replace(given, parts=np.zeros_like(given.parts))
        with pytest.raises(DataError, match="no held-out pairs"):
            build(everything, "observed").quality(everything)

    def test_other_data_are_refused(self) -> None:
        with pytest.raises(DataError, match="built from other data"):
            build(given_split(5, 6, 12), "observed").quality(given_split(6, 6, 12))

    def test_what_published_has_dropped_cannot_be_found(self) -> None:
        given = given_split(30, 25, 200, seed=3)
        built = build(given, "psp", rank=3, protocol="published")
        assert built.facts["dropped_because_held_out"] > 0
        with pytest.raises(DataError, match="build under strict"):
            built.quality(given)


class TestWords:
    def test_exact(self) -> None:
        assert Quality(0.5, 0.25, is_exact=True).words() == (
            "accuracy 50.00 %, coverage 25.00 %: exact, the truth is planted"
        )

    def test_an_estimate_says_what_it_is(self) -> None:
        words = Quality(0.5, 0.25, is_exact=False).words()
        assert words.startswith("estimated: 50.00 % of the injected pairs are held out; 25.00 % of the held-out pairs")
        assert "at least this" in words
        assert words.endswith("for reports, never for choosing")
        assert "injected" not in Quality(None, 0.0, is_exact=False).words()


def test_a_perfect_guess_is_perfect() -> None:
    world = small_world("clustered", 0.0)
    built = build(world.interactions, "observed")
    found = built.quality(world)
    assert found.accuracy == 1
    assert found.coverage == pytest.approx(len(world.interactions) / world.preferences.nnz)
