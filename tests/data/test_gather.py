"""Tables read piece by piece give what sets and dicts give over all rows at once."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pytest
from guards import guarded
from hypothesis import given, settings
from hypothesis import strategies as st

from pspns.data import distinct_pairs
from pspns.data import gather as gather_module
from pspns.data.gather import gather, to_interactions
from pspns.data.id_numbers import IdNumbers
from pspns.data.interactions import as_ids, order_ids
from pspns.data.series import as_id_column
from pspns.data.table import Table, row_number
from pspns.errors import DataError


def table(*pieces: pl.DataFrame) -> Table:
    labels = {role: f"the {role}" for role in pieces[0].columns}
    return Table("clicks", labels, lambda: iter(pieces), row_number)


TEXTS = st.sampled_from(["7", "007", "a", "b", "10", "9", "-1", "é"])
SMALL_NUMBERS = st.sampled_from([0, 1, 5, 999, 1000, 10_000, 70_000, 2**24 - 1]).map(str)
PIECES = st.lists(
    st.lists(st.tuples(TEXTS, TEXTS, st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=8),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=300)
@given(PIECES, st.sampled_from([None, 3]), st.sampled_from([1, 5, 1_000_000]))
def test_the_same_as_dicts_over_all_rows(pieces, min_rating, merge_after):
    rows = [row for piece in pieces for row in piece if min_rating is None or row[2] >= min_rating]
    frames = [pl.DataFrame(piece, schema=["user", "item", "rating", "time"], orient="row") for piece in pieces]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather_module, "_MERGE_AFTER_RATINGS", merge_after)
        patch.setattr(distinct_pairs, "_DEALT_AT_ONCE", merge_after)
        if not rows:
            with pytest.raises(DataError, match=r"clicks: no row has a rating of at least 3: .* from 1 to 2|from \d"):
                gather([table(*frames)], min_rating=min_rating)
            return
        found = gather([table(*frames)], min_rating=min_rating)
    earliest: dict[tuple[str, str], int] = {}
    for user, item, _, time in rows:
        earliest[user, item] = min(time, earliest.get((user, item), time))
    (collected,) = found.tables
    got = {
        (str(user), str(item)): time
        for user, item, time in zip(
            found.user_ids[collected.users].tolist(),
            found.item_ids[collected.items].tolist(),
            collected.times.tolist(),
            strict=True,
        )
    }
    assert got == earliest
    assert len(collected.users) == len(earliest)
    keys = collected.users * len(found.item_ids) + collected.items
    assert (np.diff(keys) > 0).all()
    expected_users = order_ids(as_ids(sorted({user for user, *_ in rows}), "user"))
    assert found.user_ids.tolist() == expected_users.tolist()
    assert collected.n_rows == len(rows)
    assert collected.n_low == sum(len(piece) for piece in pieces) - len(rows)
    assert collected.rows_of_user.tolist() == [sum(str(u) == r[0] for r in rows) for u in found.user_ids.tolist()]
    assert collected.rows_of_item.tolist() == [sum(str(i) == r[1] for r in rows) for i in found.item_ids.tolist()]
    values, counts = collected.ratings
    ratings = [row[2] for piece in pieces for row in piece]
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {r: ratings.count(r) for r in set(ratings)}


def test_rows_are_numbered_across_pieces():
    good, bad = (
        pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]}),
        pl.DataFrame({"user": ["c", ""], "item": ["x", "y"]}),
    )
    with pytest.raises(DataError, match="clicks, row 4: column the user is empty; expected an id"):
        to_interactions(table(good, bad))


@pytest.mark.parametrize("fails", ["read", "numbered", "merged"])
def test_an_error_ends_every_thread(fails, monkeypatch):
    begun, closed = [], []

    def pieces():
        try:
            for number in range(100):
                if fails == "read" and number == 5:
                    raise DataError("found")
                begun.append(number)
                yield pl.DataFrame({"user": ["" if fails == "numbered" and number == 5 else "a"], "item": ["x"]})
        finally:
            closed.append(True)

    def refuse(*columns):
        raise DataError("found")

    if fails == "merged":
        monkeypatch.setattr(distinct_pairs.DistinctPairs, "add", refuse)
    before = threading.active_count()
    with pytest.raises(DataError, match="found" if fails != "numbered" else "row 6: column u is empty") as error:
        to_interactions(Table("clicks", {"user": "u", "item": "i"}, pieces, row_number))
    # While the error still holds all that it passed through.
    assert error.traceback
    assert threading.active_count() == before
    assert closed == [True]
    assert len(begun) < 10


def test_no_rows_at_all():
    with pytest.raises(DataError, match="clicks: there are no rows"):
        to_interactions(Table("clicks", {"user": "u", "item": "i"}, lambda: iter([]), row_number))


def test_ids_of_several_tables_are_numbered_together():
    first = table(pl.DataFrame({"user": [10, 9], "item": ["x", "y"]}))
    second = table(pl.DataFrame({"user": ["9", "b"], "item": ["y", "z"]}))
    found = gather([first, second])
    assert found.user_ids.tolist() == ["9", "10", "b"]
    assert [t.users.tolist() for t in found.tables] == [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [("x" * 5000, "is 5,000 characters long"), ("a\0b", "holds a zero byte")],
)
@pytest.mark.parametrize("role", ["user", "item"])
def test_odd_ids_name_their_row(bad, problem, role):
    other = {"user": "item", "item": "user"}[role]
    pieces = [pl.DataFrame({role: ["a", "b"], other: ["1", "2"]}), pl.DataFrame({role: ["c", bad], other: ["1", "2"]})]
    with pytest.raises(DataError, match=f"clicks, row 4: column the {role} {problem}; expected an id of at most 4,096"):
        to_interactions(table(*pieces))


class TestIdNumbers:
    @settings(deadline=None, max_examples=300)
    @given(st.lists(st.lists(TEXTS | SMALL_NUMBERS, max_size=6) | st.lists(SMALL_NUMBERS, max_size=6), max_size=6))
    def test_each_id_has_one_number_from_piece_to_piece(self, pieces):
        numbers = IdNumbers()
        number_of: dict[str, int] = {}
        for piece in pieces:
            codes = numbers.number(as_id_column(pl.Series(piece, dtype=pl.String))).tolist()
            assert len(codes) == len(piece)
            for text, code in zip(piece, codes, strict=True):
                assert number_of.setdefault(text, code) == code
        assert sorted(number_of.values()) == list(range(len(number_of)))
        ids, places = numbers.in_order()
        assert {str(ids[places[code]]): code for code in range(len(places))} == number_of
        expected = order_ids(as_ids(sorted(number_of), "user")) if number_of else np.empty(0, np.int64)
        assert ids.tolist() == expected.tolist()
        assert ids.dtype == expected.dtype

    @pytest.mark.parametrize("text", ["07", "+7", " 7", "7 ", "7.0", "-0", "1e1", "７", str(2**24), "-1", str(2**63)])
    def test_only_small_plain_numbers_are_looked_up(self, text):
        numbers = IdNumbers()
        assert numbers.number(pl.Series(["7", str(2**24 - 1), "0", "10", "9"])).tolist() == [1, 4, 0, 3, 2]
        assert numbers.texts().is_empty()
        assert numbers.number(pl.Series([text, "7"])).tolist() == [5, 1]
        assert numbers.texts().to_list() == ["0", "7", "9", "10", str(2**24 - 1), text]

    def test_numbers_and_texts_of_numbers_are_one(self):
        numbers = IdNumbers()
        assert numbers.number(pl.Series([30, 20])).tolist() == [1, 0]
        assert numbers.number(pl.Series(["20", "30"])).tolist() == [0, 1]

    def test_many_small_numbers_take_little(self):
        numbers = IdNumbers()
        with guarded("2,000,000 ids"):
            for first in range(0, 2_000_000, 200_000):
                numbers.number(pl.Series(np.arange(first, first + 200_000)).cast(pl.String))
            ids, _ = numbers.in_order()
        assert ids.tolist() == list(range(2_000_000))

    def test_whole_numbers_stay_numbers(self):
        numbers = IdNumbers()
        numbers.number(as_id_column(pl.Series([2**64 - 1, 3, 20], dtype=pl.UInt64)))
        ids, places = numbers.in_order()
        assert ids.dtype == np.uint64
        assert ids.tolist() == [3, 20, 2**64 - 1]
        assert places.tolist() == [2, 0, 1]

    def test_two_do_not_share(self):
        one, other = IdNumbers(), IdNumbers()
        one.number(pl.Series(["a", "b"]))
        assert other.number(pl.Series(["b", "a"])).tolist() == [0, 1]

    def test_texts_do_not_keep_the_pieces_they_came_in(self):
        numbers = IdNumbers()
        with guarded("40 pieces of 10 MB"):
            for piece in range(40):
                usual = "a user with a long name " + pl.Series(np.arange(200_000) % 50).cast(pl.String)
                fresh = pl.Series([f"another one, from piece {piece}"])
                numbers.number(pl.concat([usual, fresh], rechunk=True))
        assert len(numbers.texts()) == 50 + 40
