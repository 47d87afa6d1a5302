"""Which columns are the user, the item, the rating and the time."""

from __future__ import annotations

import pytest

from pspns.data.columns import asked_names, choose_columns, choose_positions, is_known_name
from pspns.errors import DataError, SettingsError


def places(names, asked=None):
    columns = choose_columns(names, asked, "x.csv")
    return columns.user, columns.item, columns.rating, columns.time


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["user", "item"], (0, 1, None, None)),
        (["timestamp", "rating", "movieId", "userId"], (3, 2, 1, 0)),
        (["VisitorID", "Track_ID", "ts"], (0, 1, None, 2)),
        (["Customer Id", "product-id", "Stars", "DateTime"], (0, 1, 2, 3)),
        (["colour", "uid", "iid"], (1, 2, None, None)),
        (["reviewerID", "asin", "overall", "unixReviewTime"], (0, 1, 2, 3)),
    ],
)
def test_known_names_are_found_in_any_case_and_order(names, expected):
    assert places(names) == expected


def test_a_plain_name_wins_over_a_description():
    assert places(["movie", "item_id", "username", "user_id", "date", "timestamp"]) == (3, 1, None, 5)


def test_two_equally_good_candidates_are_an_error_not_a_choice():
    with pytest.raises(DataError, match=r"'artist_id' and 'track_id' could all be the item.*--columns item=NAME"):
        places(["user_id", "artist_id", "track_id"])


def test_asked_columns_win_and_free_the_rest_for_guessing():
    assert places(["user", "item", "visitor", "time"], {"user": "visitor", "item": "user"}) == (2, 0, None, 3)
    assert places(["item", "product"], {"user": "item"}) == (0, 1, None, None)


@pytest.mark.parametrize("absent", [None, ""])
def test_a_role_can_be_declared_absent(absent):
    assert places(["user", "item", "rating"], {"rating": absent}) == (0, 1, None, None)


@pytest.mark.parametrize("position", [2, "2"])
def test_positions_also_reach_named_columns(position):
    assert places(["user", "x", "y"], {"item": position}) == (0, 2, None, None)


def test_a_column_named_like_a_number_is_found_by_name():
    assert places(["1", "0", "user"], {"item": "0"})[1] == 1


def test_an_absent_column_is_an_error_with_the_columns_there_and_the_nearest():
    with pytest.raises(DataError, match=r"^x.csv: no column 'visiter' .*'visitor', 'sku'.*did you mean 'visitor'"):
        places(["visitor", "sku"], {"user": "visiter"})


def test_columns_that_cannot_be_guessed_are_listed_with_the_way_to_set_them():
    with pytest.raises(DataError) as error:
        places(["who", "what"])
    assert str(error.value).startswith("x.csv: cannot tell which column is the user and the item")
    for part in ("'who', 'what'", "columns={'user': NAME, 'item': NAME}", "--columns user=NAME,item=NAME"):
        assert part in str(error.value)


def test_only_the_missing_role_is_named():
    with pytest.raises(DataError, match=r"which column is the item; columns: 'user', 'what'"):
        places(["user", "what"])


def test_one_column_cannot_have_two_roles():
    with pytest.raises(DataError, match=r"column 'a' cannot be user and item at once"):
        places(["a", "b"], {"user": "a", "item": "a"})


def test_a_name_that_occurs_twice_needs_a_position():
    with pytest.raises(DataError, match=r"2 columns are named 'a' .asked for as the user.; give its position"):
        places(["a", "a", "item"], {"user": "a"})
    assert places(["a", "a", "item"], {"user": 1})[0] == 1


def test_unknown_roles_are_refused():
    with pytest.raises(SettingsError, match=r"no column role named 'usr'.*did you mean 'user'"):
        places(["a", "b"], {"usr": "a"})


def test_facts_tell_the_choice_and_what_is_ignored():
    facts = choose_columns(["visitor", "sku", "price"], {"user": "visitor"}, "x.csv").facts()
    assert facts == (
        "columns: user = 'visitor', item = 'sku', no rating, no time",
        "columns ignored: 'price'",
    )


def test_positions_of_two_to_four_columns():
    def positions(width):
        columns = choose_positions(width, None, "x.csv")
        return columns.user, columns.item, columns.rating, columns.time

    assert [positions(width) for width in (2, 3, 4)] == [(0, 1, None, None), (0, 1, 2, None), (0, 1, 2, 3)]


def test_more_columns_without_names_need_to_be_told():
    with pytest.raises(DataError, match=r"x.csv: 5 columns and no header.*--columns user=0,item=1"):
        choose_positions(5, None, "x.csv")
    columns = choose_positions(5, {"user": 4, "item": "0"}, "x.csv")
    assert (columns.user, columns.item, columns.rating) == (4, 0, None)


def test_a_name_without_a_header_and_a_position_out_of_range_are_errors():
    with pytest.raises(DataError, match=r"asks for 'sku' as the item, but there is no header.*0 to 1"):
        choose_positions(2, {"user": 0, "item": "sku"}, "x.csv")
    with pytest.raises(DataError, match=r"no column at position 2.*positions 0 to 1"):
        choose_positions(2, {"user": 0, "item": 2}, "x.csv")
    with pytest.raises(DataError, match=r"which column is the item; columns: 0, 1.*--columns user=0,item=1"):
        choose_positions(2, {"user": 0}, "x.csv")


def test_asked_names_leaves_positions_out():
    assert asked_names({"user": "who", "item": 1, "rating": "2", "time": None}) == ["who"]
    assert asked_names(None) == []


def test_known_names():
    assert is_known_name("USER-ID")
    assert not is_known_name("u1")
