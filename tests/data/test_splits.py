"""What every split promises, and what each one does, worked by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.components import find_part, part_names
from pspns.data.interactions import Interactions
from pspns.data.split import Part, Split
from pspns.data.splits._users import places_within_users
from pspns.data.splits.global_time import GlobalTimeSplit
from pspns.data.splits.leave_one_out import LeaveOneOutSplit
from pspns.data.splits.none import NoSplit
from pspns.data.splits.per_user import PerUserSplit
from pspns.data.splits.random import RandomSplit
from pspns.errors import DataError, SettingsError

T, V, E = (int(part) for part in (Part.TRAIN, Part.VALID, Part.TEST))

NEEDS_TIMES = {"global-time"}
NEVER_RANDOM = {"global-time", "none"}


def rows(n_users: int = 40, n_items: int = 30, n_rows: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    users, items = rng.integers(n_users, size=n_rows), rng.integers(n_items, size=n_rows)
    return users, items, rng.integers(200, size=n_rows).astype(float)  # times with many ties


def some_interactions(*, with_times: bool) -> Interactions:
    users, items, times = rows()
    return Interactions.from_arrays(users, items, times=times if with_times else None)


def cases() -> list[tuple[str, bool]]:
    return [
        (name, with_times)
        for name in part_names("splits")
        for with_times in (True, False)
        if with_times or name not in NEEDS_TIMES
    ]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("name", "with_times"), cases())
class TestEverySplit:
    def test_puts_each_pair_into_exactly_one_part(self, name: str, with_times: bool) -> None:
        pairs = some_interactions(with_times=with_times)
        split = find_part("splits", name)()
        parts = split.assign(pairs, rng())
        assert parts.dtype == np.int8
        assert parts.shape == (len(pairs),)
        made = Split.from_parts(pairs, parts, split.describe())
        together = [
            (made.user_ids[user], made.item_ids[item])
            for part in (made.train, made.valid, made.test)
            for user, item in zip(part.users, part.items, strict=True)
        ]
        given = {(pairs.user_ids[u], pairs.item_ids[i]) for u, i in zip(pairs.users, pairs.items, strict=True)}
        assert len(together) == len(given)
        assert set(together) == given
        assert (name == "none") == (len(made.valid) == 0) == (len(made.test) == 0)

    def test_is_a_function_of_the_seed_alone(self, name: str, with_times: bool) -> None:
        pairs = some_interactions(with_times=with_times)
        split = find_part("splits", name)()
        first = split.assign(pairs, rng(1))
        assert split.assign(pairs, rng(1)).tolist() == first.tolist()
        is_random = name not in NEVER_RANDOM and not (name == "leave-one-out" and with_times)
        assert (split.assign(pairs, rng(2)).tolist() != first.tolist()) == is_random

    def test_does_not_depend_on_the_order_of_rows(self, name: str, with_times: bool) -> None:
        users, items, times = rows()
        order = rng(3).permutation(len(users))
        shuffled = Interactions.from_arrays(users[order], items[order], times=times[order] if with_times else None)
        split = find_part("splits", name)()
        there = split.assign(some_interactions(with_times=with_times), rng(4))
        assert split.assign(shuffled, rng(4)).tolist() == there.tolist()

    def test_says_in_words_what_it_does(self, name: str, with_times: bool) -> None:
        assert find_part("splits", name)().describe()


@pytest.mark.parametrize("name", sorted(NEEDS_TIMES))
def test_missing_times_are_an_error_that_says_what_to_do(name: str) -> None:
    with pytest.raises(DataError, match="no times; give the column that holds them, or choose another split"):
        find_part("splits", name)().assign(some_interactions(with_times=False), rng())


def one_user(n_pairs: int, times: list[float] | None = None) -> Interactions:
    return Interactions.from_arrays([0] * n_pairs, list(range(n_pairs)), times=times)


@pytest.mark.parametrize("split", [RandomSplit, PerUserSplit, GlobalTimeSplit])
@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.1), (0.1, 1.0), (0.5, 0.5)])
def test_impossible_shares_are_refused(split: type, valid: float, test: float) -> None:
    with pytest.raises(SettingsError, match="_share"):
        split(valid_share=valid, test_share=test)


def test_none_holds_nothing_out() -> None:
    assert NoSplit().assign(one_user(4), rng()).tolist() == [T, T, T, T]


def test_random_counts_are_the_rounded_shares_of_all_pairs() -> None:
    parts = RandomSplit(valid_share=0.1, test_share=0.2).assign(one_user(37), rng())
    assert np.bincount(parts).tolist() == [26, 4, 7]  # 3.7 and 7.4


class TestPlacesWithinUsers:
    def test_second_key_breaks_ties(self) -> None:
        users, times, items = np.array([0, 0, 0, 1]), np.array([2.0, 1.0, 1.0, 0.0]), np.array([0, 9, 3, 0])
        assert places_within_users(users, times, items).tolist() == [2, 1, 0, 0]


class TestPerUser:
    def test_whole_shares_are_met_exactly_in_every_user(self) -> None:
        # 10 pairs each: two for validation and three for the test, whatever the random start.
        pairs = Interactions.from_arrays(np.repeat(np.arange(5), 10), np.tile(np.arange(10), 5))
        parts = PerUserSplit(valid_share=0.2, test_share=0.3).assign(pairs, rng())
        counts = [np.bincount(parts[pairs.users == user]).tolist() for user in range(5)]
        assert counts == [[5, 2, 3]] * 5
        assert len({tuple(parts[pairs.users == user]) for user in range(5)}) > 1, "each user is drawn anew"

    def test_light_users_share_what_is_too_little_for_each(self) -> None:
        # 300 users with 4 pairs: 0.4 of a pair for each part, 120 pairs in all, never two from one user.
        pairs = Interactions.from_arrays(np.repeat(np.arange(300), 4), np.tile(np.arange(4), 300))
        parts = PerUserSplit().assign(pairs, rng())
        assert np.bincount(parts).tolist() == [960, 120, 120]
        held_out = np.bincount(pairs.users[parts != T], minlength=300)
        assert set(held_out.tolist()) == {0, 1}

    def test_every_pair_is_equally_likely_to_be_held_out(self) -> None:
        users = np.repeat([0, 1, 2], [3, 7, 2])
        pairs = Interactions.from_arrays(users, np.arange(12))
        split, generator = PerUserSplit(valid_share=0.1, test_share=0.2), rng()
        n_draws = 4000
        drawn = np.stack([split.assign(pairs, generator) for _ in range(n_draws)])
        # Five standard deviations of a share of 4,000 draws.
        for part, share in ((V, 0.1), (E, 0.2)):
            assert (drawn == part).mean(axis=0) == pytest.approx(
                np.full(12, share), abs=5 * (share * (1 - share) / n_draws) ** 0.5
            )

    @settings(max_examples=60, deadline=None)
    @given(
        counts=st.lists(st.integers(1, 12), min_size=1, max_size=30),
        valid=st.floats(0, 0.9),
        test=st.floats(0, 0.9),
        seed=st.integers(0, 99),
    )
    def test_keeps_a_train_pair_and_rounds_down_or_up(
        self, counts: list[int], valid: float, test: float, seed: int
    ) -> None:
        if valid + test >= 1:
            valid, test = valid / 2, test / 2
        n = np.array(counts)
        pairs = Interactions.from_arrays(np.repeat(np.arange(len(n)), n), np.arange(n.sum()))
        parts = PerUserSplit(valid_share=valid, test_share=test).assign(pairs, rng(seed))
        held_out = np.bincount(pairs.users[parts != T], minlength=len(n))
        quota = n * (valid + test)
        assert (n - held_out >= 1).all()
        assert (held_out >= np.minimum(np.floor(quota - 1e-9), n - 1)).all()
        assert (held_out <= np.ceil(quota + 1e-9)).all()
        if valid + test > 0:
            expected_valid = held_out.sum() * valid / (valid + test)
            assert abs((parts == V).sum() - expected_valid) <= 1


class TestLeaveOneOut:
    def test_by_time_the_latest_is_the_test_and_the_one_before_the_validation(self) -> None:
        pairs = Interactions.from_arrays(
            ["a", "a", "a", "a", "b", "b", "b", "c", "c"],
            [0, 1, 2, 3, 0, 1, 2, 0, 1],
            times=[40, 10, 30, 20, 3, 2, 1, 1, 2],
        )
        for by in ("time", "auto"):
            parts = LeaveOneOutSplit(by=by).assign(pairs, rng())
            assert parts.tolist() == [E, T, V, T, E, V, T, T, T]  # "c" has two pairs and keeps them

    def test_of_equal_times_the_lower_item_is_the_earlier(self) -> None:
        pairs = Interactions.from_arrays([0] * 4, [5, 2, 9, 4], times=[1, 1, 1, 1])
        assert pairs.item_ids.tolist() == [2, 4, 5, 9]
        assert LeaveOneOutSplit(by="time").assign(pairs, rng()).tolist() == [T, T, V, E]

    @pytest.mark.parametrize("by", ["random", "auto"])
    def test_without_times_two_random_pairs_of_each_user(self, by: str) -> None:
        pairs = Interactions.from_arrays(np.repeat(np.arange(200), 3), np.tile(np.arange(3), 200))
        parts = LeaveOneOutSplit(by=by).assign(pairs, rng()).reshape(200, 3)
        assert np.sort(parts, axis=1).tolist() == [[T, V, E]] * 200
        assert len(np.unique(parts, axis=0)) == 6, "all orders of three parts occur"

    def test_random_does_not_look_at_times(self) -> None:
        with_times, without = one_user(9, times=list(range(9))), one_user(9)
        split = LeaveOneOutSplit(by="random")
        assert split.assign(with_times, rng(5)).tolist() == split.assign(without, rng(5)).tolist()

    def test_by_time_without_times_says_what_to_do(self) -> None:
        with pytest.raises(DataError, match=r"no times; .* set \[split\] by to random"):
            LeaveOneOutSplit(by="time").assign(one_user(5), rng())

    def test_nothing_to_hold_out_is_an_error(self) -> None:
        with pytest.raises(DataError, match="no user has 3 pairs, the most is 2"):
            LeaveOneOutSplit().assign(one_user(2), rng())

    def test_unknown_order_is_refused_by_name(self) -> None:
        with pytest.raises(SettingsError, match="did you mean 'time'"):
            LeaveOneOutSplit(by="tme")  # type: ignore[arg-type]

    def test_description_tells_what_happens_without_times(self) -> None:
        texts = {by: LeaveOneOutSplit(by=by).describe() for by in ("time", "random", "auto")}
        assert len(set(texts.values())) == 3
        assert "no times" in texts["auto"]


class TestGlobalTime:
    def test_latest_pairs_of_all_users_are_held_out(self) -> None:
        # Ten times, 7 : 1 : 2; the two latest are 90 and 80, the one before is 70.
        times = [90, 10, 70, 30, 80, 20, 60, 40, 50, 0]
        parts = GlobalTimeSplit(valid_share=0.1, test_share=0.2).assign(one_user(10, times), rng())
        assert parts.tolist() == [E, T, V, T, E, T, T, T, T, T]

    def test_a_cut_among_equal_times_moves_to_the_nearest_change(self) -> None:
        # Wanted: 2 of 10 in the test, a cut at 8. Times change at 4 and 7, so the cut moves to 7.
        times = [1, 1, 1, 1, 2, 2, 2, 3, 3, 3]
        parts = GlobalTimeSplit(valid_share=0, test_share=0.2).assign(one_user(10, times), rng())
        assert parts.tolist() == [T] * 7 + [E] * 3

    def test_of_two_equally_near_changes_the_later_is_taken(self) -> None:
        # Wanted cuts at 6 and at 4; times change at 3, 5 and 6.
        times = [1, 1, 1, 2, 2, 3, 4, 4]
        parts = GlobalTimeSplit(valid_share=0.25, test_share=0.25).assign(one_user(8, times), rng())
        assert parts.tolist() == [T] * 5 + [V] + [E] * 2

    @pytest.mark.parametrize("times", [[1] * 10, [1] * 5 + [2] * 5])
    def test_too_coarse_times_are_an_error(self, times: list[float]) -> None:
        with pytest.raises(DataError, match=r"too coarse to cut off 1 of 10 pairs .* equal times stay together"):
            GlobalTimeSplit().assign(one_user(10, times), rng())

    @settings(max_examples=60, deadline=None)
    @given(
        times=st.lists(st.integers(0, 40), min_size=30, max_size=120),
        shares=st.sampled_from([(0.1, 0.1), (0.1, 0.2), (0.0, 0.3), (0.3, 0.0)]),
    )
    def test_parts_follow_each_other_in_time_and_are_as_near_as_ties_allow(
        self, times: list[int], shares: tuple[float, float]
    ) -> None:
        pairs = one_user(len(times), [float(t) for t in times])
        valid, test = shares
        try:
            parts = GlobalTimeSplit(valid_share=valid, test_share=test).assign(pairs, rng())
        except DataError:
            assert len(set(times)) < len(times)
            return
        at = [np.array(times)[parts == part] for part in (T, V, E)]
        present = [part_times for part_times in at if len(part_times)]
        assert all(early.max() < late.min() for early, late in itertools.pairwise(present))
        largest_tie = max(times.count(t) for t in times)
        assert abs(len(at[2]) - test * len(times)) <= largest_tie / 2 + 0.5
        assert abs(len(at[1]) + len(at[2]) - (valid + test) * len(times)) <= largest_tie / 2 + 1
