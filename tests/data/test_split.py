"""Numbering: what train builds on cannot be touched by what is held out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data.interactions import Interactions
from pspns.data.split import Pairs, Part, Split
from pspns.errors import DataError

T, V, E = Part.TRAIN, Part.VALID, Part.TEST

Labelled = dict[tuple[str, str], Part]


def split_of(labelled: Labelled) -> Split:
    users, items = zip(*labelled, strict=True)
    pairs = Interactions.from_arrays(list(users), list(items))
    parts = [
        labelled[str(pairs.user_ids[user]), str(pairs.item_ids[item])]
        for user, item in zip(pairs.users, pairs.items, strict=True)
    ]
    return Split.from_parts(pairs, np.array(parts, dtype=np.int8), "by hand")


def by_id(split: Split, pairs: Pairs) -> set[tuple[str, str]]:
    return {
        (str(split.user_ids[user]), str(split.item_ids[item]))
        for user, item in zip(pairs.users, pairs.items, strict=True)
    }


def test_train_ids_come_first_and_sorted_then_the_others() -> None:
    split = split_of({("9", "x"): T, ("10", "w"): T, ("2", "x"): E, ("9", "a"): V, ("9", "b"): T, ("1", "w"): V})
    assert (split.n_users, split.n_items) == (2, 3)
    assert split.user_ids.tolist() == [9, 10, 1, 2]  # as numbers: 9 before 10
    assert split.item_ids.tolist() == ["b", "w", "x", "a"]
    assert (split.train.users.tolist(), split.train.items.tolist()) == ([0, 0, 1], [0, 2, 1])
    assert (split.valid.users.tolist(), split.valid.items.tolist()) == ([0, 2], [3, 1])
    assert (split.test.users.tolist(), split.test.items.tolist()) == ([3], [2])
    assert len(split.valid) > 0


def test_nothing_in_train_is_an_error() -> None:
    with pytest.raises(DataError, match=r"no pair is left for train \(by hand\)"):
        split_of({("1", "1"): E})


def test_without_validation_that_part_is_empty() -> None:
    assert len(split_of({("1", "1"): T, ("1", "2"): E}).valid) == 0


def test_matrix_has_a_one_for_each_pair() -> None:
    matrix = Pairs.sorted_from(np.array([2, 0, 2]), np.array([1, 3, 0])).matrix(3, 4)
    assert matrix.toarray().tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert matrix.dtype == np.float32


def test_pairs_are_sorted_by_user_then_item() -> None:
    pairs = Pairs.sorted_from(np.array([2, 0, 2, 0]), np.array([1, 3, 0, 1]))
    assert (pairs.users.tolist(), pairs.items.tolist()) == ([0, 0, 2, 2], [1, 3, 0, 1])


names = st.one_of(st.integers(0, 12).map(str), st.sampled_from(["a", "B", "007", "é", "-3", "10a"]))
pair_sets = st.sets(st.tuples(names, names), max_size=25)


@settings(max_examples=150, deadline=None)
@given(train=pair_sets.filter(bool), held_out=pair_sets, other_held_out=pair_sets, data=st.data())
def test_held_out_pairs_change_nothing_about_train(
    train: set[tuple[str, str]],
    held_out: set[tuple[str, str]],
    other_held_out: set[tuple[str, str]],
    data: st.DataObject,
) -> None:
    def with_held_out(pairs: set[tuple[str, str]]) -> tuple[Labelled, Split]:
        labelled = dict.fromkeys(train, T)
        labelled |= {pair: data.draw(st.sampled_from([V, E])) for pair in sorted(pairs - train)}
        return labelled, split_of(labelled)

    labelled, split = with_held_out(held_out)
    _, other = with_held_out(other_held_out)
    for part, pairs in ((T, split.train), (V, split.valid), (E, split.test)):
        assert by_id(split, pairs) == {pair for pair, label in labelled.items() if label is part}

    assert (split.n_users, split.n_items) == (other.n_users, other.n_items)
    assert split.train.users.tolist() == other.train.users.tolist()
    assert split.train.items.tolist() == other.train.items.tolist()
    trained = [(s.user_ids[: s.n_users], s.item_ids[: s.n_items]) for s in (split, other)]
    assert [[str(value) for value in ids] for ids in trained[0]] == [
        [str(value) for value in ids] for ids in trained[1]
    ]
    assert {user for user, _ in train} == {str(user) for user in trained[0][0]}


class TestFingerprint:
    labelled: Labelled = {("1", "1"): T, ("1", "2"): V, ("2", "1"): T, ("2", "2"): E}  # noqa: RUF012

    def test_same_data_same_fingerprint(self) -> None:
        backwards = dict(reversed(self.labelled.items()))
        assert split_of(self.labelled).fingerprint() == split_of(backwards).fingerprint()

    @pytest.mark.parametrize(
        "change",
        [
            {("1", "2"): E},  # another part
            {("2", "2"): V},
            {("2", "3"): E},  # a further pair
            {("a", "1"): T},  # other ids, same shape of numbers otherwise
        ],
    )
    def test_any_change_shows(self, change: Labelled) -> None:
        assert split_of(self.labelled).fingerprint() != split_of(self.labelled | change).fingerprint()

    def test_renamed_ids_show(self) -> None:
        renamed = {(user, f"{item}0"): part for (user, item), part in self.labelled.items()}
        assert split_of(self.labelled).fingerprint() != split_of(renamed).fingerprint()
