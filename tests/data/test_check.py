"""Every mistake is found once it is made, in words that name it; clean data are left in peace."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

from pspns.data.check import Finding, check
from pspns.data.gather import gather
from pspns.data.planted import Kind, plant
from pspns.data.split import Part
from pspns.data.table import Table, row_number

NOW = 1_700_000_000.0  # November 2023
LABELS = {"user": "'user'", "item": "'item'", "rating": "'stars'", "time": "'when'"}
PLACE = pl.int_range(pl.len())


@cache
def clean(kind: Kind = "clustered") -> pl.DataFrame:
    """Users with text ids, items with numbers, times over two years."""
    rng = np.random.default_rng(0)
    pairs = plant(kind, n_users=150, n_items=120, rng=rng, mean_preferences=25).interactions
    users = pl.Series([f"u{number}" for number in pairs.users])
    return pl.DataFrame({"user": users, "item": pairs.items, "time": rng.uniform(1.6e9, 1.66e9, len(pairs)).round()})


def look(*frames: pl.DataFrame, min_rating: float | None = None, **labels: str) -> list[Finding]:
    """What is found in one table, in train and test, or in train, valid and test."""
    parts = {1: [Part.TRAIN], 2: [Part.TRAIN, Part.TEST], 3: list(Part)}[len(frames)]
    labels = LABELS | labels
    tables = [
        Table("toy", {role: labels[role] for role in frame.columns}, lambda frame=frame: iter([frame]), row_number)
        for frame in frames
    ]
    return check(gather(tables, min_rating=min_rating), parts=parts, labels=labels, now=NOW, min_rating=min_rating)


def only(*frames: pl.DataFrame, **options: Any) -> tuple[str, str]:
    """Severity and words of the one thing found."""
    (finding,) = look(*frames, **options)
    assert finding.advice.endswith((".", "="))
    return finding.severity, finding.what


def respelled(frame: pl.DataFrame, role: str, old: str, new: str) -> pl.DataFrame:
    """Every second row of an id written otherwise."""
    is_chosen = (pl.col(role) == old) & (PLACE.over(role) % 2 == 1)
    return frame.with_columns(pl.when(is_chosen).then(pl.lit(new)).otherwise(role).alias(role))


def overwritten(n: int, **values: Any) -> pl.DataFrame:
    """The first `n` rows with another value."""
    return clean().with_columns(**{
        role: pl.when(n > PLACE).then(pl.lit(value)).otherwise(role) for role, value in values.items()
    })  # fmt: skip


def rated(*ratings: float) -> pl.DataFrame:
    """The ratings in turn."""
    return clean().with_columns(rating=pl.Series(np.resize(np.array(ratings, np.float64), len(clean()))))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_clean_data_are_left_in_peace(kind: Kind) -> None:
    data = clean(kind)
    assert look(data) == []
    assert look(data.drop("time").with_columns(rating=PLACE % 5 + 1.0), min_rating=4) == []
    is_test = PLACE.over("user") == 1
    assert look(data.filter(~is_test), data.filter(is_test)) == []


@pytest.mark.parametrize(
    ("new", "difference", "shown"),
    [
        ("u7 ", "blanks", "'u7' and 'u7 '"),
        ("u\u00a07", "blanks", "'u7' and 'u\\xa07'"),
        ("U7", "upper and lower case", "'U7' and 'u7'"),
        ("u7\u200b", "invisible characters or how Unicode composes letters", "'u7' and 'u7\\u200b'"),
        ("\ufeffu7", "invisible characters or how Unicode composes letters", "'u7' and '\\ufeffu7'"),
        ("u７", "invisible characters or how Unicode composes letters", "'u7' and 'u\\uff17'"),
        ("U 7", "blanks, upper and lower case and the like", "'U 7' and 'u7'"),
    ],
)
def test_ids_that_look_alike(new: str, difference: str, shown: str) -> None:
    severity, what = only(respelled(clean(), "user", "u7", new))
    assert severity == "warning"
    assert what == f"ids in column 'user' that differ only by {difference}: 2 ids for 1 user, such as {shown}"


def test_an_id_that_is_like_others_in_two_ways_is_named_for_both() -> None:
    data = respelled(respelled(clean(), "user", "u7", "u7 "), "user", "u7", "U7")
    assert [finding.what.partition("such as ")[2] for finding in look(data)] == ["'u7' and 'u7 '", "'U7' and 'u7'"]


def test_accents_composed_and_apart_can_be_told_apart_on_the_screen() -> None:
    named = clean().with_columns(pl.col("user").replace("u7", "Zo\u00eb"))
    assert "such as 'Zoe\\u0308' and 'Zo\\xeb'" in only(respelled(named, "user", "Zo\u00eb", "Zoe\u0308"))[1]


@pytest.mark.parametrize("new", ["007", "7.0", "+7"])
def test_numbers_written_in_two_ways(new: str) -> None:
    texts = clean().with_columns(pl.col("item").cast(pl.String))
    severity, what = only(respelled(texts, "item", "7", new))
    assert severity == "warning"
    assert "ids in column 'item' that differ only by how a number is written: 2 ids for 1 item" in what
    assert f"'{new}'" in what


def test_leading_zeros_alone_are_no_mistake() -> None:
    assert look(clean().with_columns(pl.col("item").cast(pl.String).str.zfill(5))) == []


def test_all_are_counted_and_three_shown_those_with_most_rows_first() -> None:
    data = clean()
    for user in ("u1", "u2", "u3", "u4", "u5"):
        data = respelled(data, "user", user, user.upper())
    what = only(data)[1]
    assert "10 ids for 5 users, such as " in what
    most = clean()["user"].value_counts(sort=True).filter(pl.col("user").is_in(["u1", "u2", "u3", "u4", "u5"]))
    examples = what.partition("such as ")[2].split("; ")
    assert len(examples) == 3
    assert most["user"][0] in examples[0]


def test_case_in_random_codes_is_only_noted() -> None:
    codes = clean().with_columns(user="a" + pl.col("user") + "Z")
    assert only(respelled(codes, "user", "au7Z", "Au7z"))[0] == "note"


def test_ids_with_blanks_around_them_that_are_like_no_other() -> None:
    severity, what = only(clean().with_columns(pl.col("user").replace("u7", " u7")))
    assert severity == "note"
    assert what.endswith("or hold an invisible character: 1, such as ' u7'")


@pytest.mark.parametrize("word", ["NaN", "null", "None", "N/A", "undefined", "-1"])
def test_an_id_that_looks_missing(word: str) -> None:
    n_rows = len(clean())
    found = look(overwritten(n_rows // 5, user=word))
    n_missing = clean()[: n_rows // 5]["item"].n_unique()
    assert [finding.severity for finding in found] == ["warning", "note"]
    assert f"rows whose user looks like a missing one, such as '{word}': {n_rows // 5:,} of" in found[0].what
    assert "repeat a pair" in found[1].what  # the one user has each item once only
    assert n_missing < n_rows // 5


def test_a_rare_id_that_looks_missing_is_only_noted() -> None:
    assert only(overwritten(1, user="na")) == (
        "note",
        f"rows whose user looks like a missing one, such as 'na': 1 of {len(clean()):,} ({100 / len(clean()):.2g} %)",
    )


def test_minus_one_among_numbers() -> None:
    n_rows = len(clean())
    found = look(overwritten(n_rows // 20, item=-1))
    assert found[0].severity == "warning"
    assert "rows whose item looks like a missing one, such as -1" in found[0].what


@pytest.mark.parametrize(("share", "severity"), [(0.6, "warning"), (0.2, "note")])
def test_one_user_with_many_rows(share: float, severity: str) -> None:
    data = clean()
    n_more = round(len(data) * share / (1 - share))
    more = pl.DataFrame({"user": ["robot"] * n_more, "item": np.arange(n_more), "time": [1.6e9] * n_more})
    found = next(finding for finding in look(pl.concat([data, more])) if "alone" in finding.what)
    assert found.severity == severity
    assert found.what == f"rows of user 'robot' alone: {n_more:,} of {len(data) + n_more:,} ({100 * share:.0f} %)"


def test_one_item_with_half_the_rows() -> None:
    data = clean()
    users = pl.Series([f"v{number}" for number in range(len(data))])
    more = pl.DataFrame({"user": users, "item": [7] * len(data), "time": [1.6e9] * len(data)})
    found = next(finding for finding in look(pl.concat([data, more])) if "alone" in finding.what)
    assert found.severity == "warning"
    assert found.what.startswith("rows of item 7 alone: ")


def test_a_column_that_numbers_the_rows() -> None:
    data = clean().with_columns(user=PLACE.cast(pl.String) + "x")
    assert only(data) == ("warning", "every row has another user (column 'user'), so there is nothing to learn from")


def test_most_users_with_a_single_pair() -> None:
    more = pl.DataFrame({"user": [f"v{n}" for n in range(300)], "item": np.arange(300) % 100, "time": [1.6e9] * 300})
    data = pl.concat([clean(), more])
    n_users = data["user"].n_unique()
    n_single = (data.unique(("user", "item"))["user"].value_counts()["count"] == 1).sum()
    share = f"{100 * n_single / n_users:.2g}"
    assert only(data) == ("note", f"users with a single pair: {n_single:,} of {n_users:,} ({share} %)")


def test_the_same_column_twice() -> None:
    data = pl.DataFrame({"user": np.repeat(np.arange(200), 2), "item": np.repeat(np.arange(200), 2)})
    assert ("warning", "pairs whose user and item are the same id: 200 of 200 (100 %)") in [
        (finding.severity, finding.what) for finding in look(data)
    ]
    # Text and numbers that read the same are the same.
    texts = data.with_columns(pl.col("user").cast(pl.String))
    assert any("are the same id" in finding.what for finding in look(texts))


def test_user_and_item_swapped() -> None:
    severity, what = only(clean(), user="'movieId'", item="'userId'")
    assert severity == "warning"
    assert what == "the user is read from column 'movieId', the item from column 'userId'"
    assert look(clean(), user="'userId'", item="'movieId'") == []
    assert look(clean(), user="0", item="1") == []


def test_rows_written_twice() -> None:
    assert only(pl.concat([clean(), clean()])) == (
        "warning",
        "users and items have exactly 2 rows for each of their pairs",
    )


def test_many_repeated_rows() -> None:
    data = clean()
    n_repeats = len(data) // 4
    assert only(pl.concat([data, data[:n_repeats]])) == (
        "note",
        f"rows that repeat a pair: {n_repeats:,} of {len(data) + n_repeats:,} (20 %)",
    )
    assert look(pl.concat([data, data[: len(data) // 20]])) == []


def test_too_few_to_train_on() -> None:
    few = clean().filter(pl.col("item") < 60)
    (finding,) = look(few)
    n_users = few["user"].n_unique()
    assert finding.severity == "warning"
    assert finding.what == f"there are only {n_users} users and 60 items to train on"
    assert "recommended (100)" in finding.advice
    assert "paper" not in finding.advice
    assert "paper (50), recommended (100)" in look(few.filter(pl.col("item") < 40))[0].advice


@pytest.mark.parametrize(
    ("ratings", "severity", "words"),
    [
        ((5,), "warning", "every rating in column 'stars' is 5"),
        ((1,), "note", "every rating in column 'stars' is 1"),
        ((0, 1, 1, 1), "warning", "rows rated 0, where all others are rated 1: "),
        ((0, 7, 8, 10), "warning", "rows rated 0, where all others are rated 7 to 10: "),
        ((-1, 7, 8, 10), "warning", "rows rated -1, where all others are rated 7 to 10: "),
        ((1, 1, 2, 3, 900), "note", "look like counts: half of them are at most 2, the highest is 900"),
        ((1.5e9, 1.6e9, 1.7e9), "warning", "look like times: half of them are above 1600000000"),
        ((1, 4, 5, 5), "note", "rows rated below 3, the middle of 1 to 5: "),
    ],
)
def test_ratings(ratings: tuple[float, ...], severity: str, words: str) -> None:
    found = only(rated(*ratings))
    assert found[0] == severity
    assert words in found[1]


def test_ratings_that_look_like_ids() -> None:
    severity, what = only(rated(*range(10**5, 10**5 + len(clean()))))
    assert severity == "warning"
    assert f"look like ids: {len(clean()):,} different whole numbers in {len(clean()):,} rows" in what


@pytest.mark.parametrize("ratings", [(0, 0.5, 4, 5), (-10, -5, 5, 10)])
def test_zero_on_a_scale_is_a_rating(ratings: tuple[float, ...]) -> None:
    assert "the middle of" in only(rated(*ratings))[1]


def test_the_share_of_the_low_ratings_and_what_min_rating_settles() -> None:
    data = rated(0, 1)
    n_low = len(data) // 2 + len(data) % 2
    assert only(data)[1].endswith(f": {n_low:,} of {len(data):,} (50 %)")
    assert look(data, min_rating=1) == []


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (0.0, "pairs with time 0 in column 'when': "),
        (1.9e9, "pairs with a time in the future in column 'when', up to 2030-03-17: "),
        (253_370_764_800.0, "pairs with a time in the future in column 'when', up to 9999-01-01: "),
        (1.6e12, "in another unit than the others, so that it seems to be 52671-12-25: "),
        (1.6e6, "in another unit than the others, so that it seems to be 1970-01-19: "),
        (5e8, "pairs with a time before 1990 in column 'when', down to 1985-11-05: "),
        (-6e10, "pairs with a time before 1990 in column 'when', down to 0068-09-03: "),
    ],
)
def test_a_few_odd_times(time: float, words: str) -> None:
    severity, what = only(overwritten(3, time=time))
    assert severity == "warning"
    assert words in what
    assert what.endswith(f": 3 of {len(clean()):,} ({300 / len(clean()):.2g} %)")


def test_several_kinds_of_odd_times_are_kept_apart() -> None:
    odd = [0.0, 1.9e9, 2.0e9, 5e8, 1.6e12, 1.65e12, 1.66e12]
    times = pl.Series([*odd, *clean()["time"][len(odd) :]])
    words = [finding.what.rpartition(" of ")[0] for finding in look(clean().with_columns(time=times))]
    assert words == [
        "pairs with time 0 in column 'when': 1",
        "pairs whose time in column 'when' is in another unit than the others, so that it seems to be 52671-12-25: 3",
        "pairs with a time in the future in column 'when', up to 2033-05-18: 2",
        "pairs with a time before 1990 in column 'when', down to 1985-11-05: 1",
    ]


def test_tomorrow_is_not_the_future_yet() -> None:
    assert look(overwritten(3, time=NOW + 40_000)) == []


@pytest.mark.parametrize(
    ("times", "severity", "words"),
    [
        (pl.lit(0.0), "warning", "every time in column 'when' is the same (0)"),
        (pl.lit(1.6e9), "warning", "every time in column 'when' is the same (2020-09-13)"),
        (1.6e9 + PLACE / pl.len(), "warning", "all times in column 'when' lie within one second of 2020-09-13"),
        (20200101.0 + PLACE % 28, "note", "run from 20200101 to 20200128, which are no seconds since 1970"),
    ],
)
def test_times_that_are_odd_altogether(times: pl.Expr, severity: str, words: str) -> None:
    found = only(clean().with_columns(time=times))
    assert found[0] == severity
    assert words in found[1]


def halves() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Train, and a smaller test that shares nothing with it."""
    is_test = PLACE.over("user") % 3 == 1
    return clean().filter(~is_test), clean().filter(is_test)


def test_test_pairs_that_are_also_in_train() -> None:
    train, test = halves()
    severity, what = only(train, pl.concat([test, train[:100]]))
    assert severity == "warning"
    assert what.startswith(f"test pairs that are also in train: 100 of {len(test) + 100:,} (")


def test_every_two_parts_are_compared() -> None:
    train, test = halves()
    found = [finding.what for finding in look(train, test[:50], pl.concat([test[40:], train[:7]]))]
    assert [what.partition(" (")[0] for what in found] == [
        f"test pairs that are also in train: 7 of {len(test) - 33:,}",
        f"test pairs that are also in valid: 10 of {len(test) - 33:,}",
    ]


def test_the_same_file_twice() -> None:
    assert only(clean(), clean()) == ("warning", "test holds exactly the pairs of train")


def test_users_and_items_that_train_does_not_know() -> None:
    train, test = halves()
    new = pl.DataFrame({"user": ["u1", "u1", "new"], "item": [900, 901, 2], "time": [1.65e9] * 3})
    findings = look(train, pl.concat([test, new]))
    assert [finding.severity for finding in findings] == ["note", "note"]
    assert findings[0].what.startswith(f"test pairs whose user is not in train: 1 of {len(test) + 3:,} (")
    assert findings[0].what.endswith(", with 1 user")
    assert findings[1].what.startswith(f"test pairs whose item is not in train: 2 of {len(test) + 3:,} (")
    assert findings[1].what.endswith(", with 2 items")


def test_ids_written_otherwise_in_the_test_file() -> None:
    train, test = halves()
    findings = look(train, test.with_columns(pl.col("user").str.to_uppercase()))
    assert [finding.severity for finding in findings] == ["warning", "warning"]
    assert f"test pairs whose user is not in train: {len(test):,} of {len(test):,} (100 %)" in findings[0].what
    assert "differ only by upper and lower case" in findings[1].what


def test_a_test_part_larger_than_train() -> None:
    train, test = halves()
    what = [finding.what for finding in look(test, train)]
    assert f"test has more pairs ({len(train):,}) than train ({len(test):,})" in what


def test_warnings_come_first() -> None:
    more = rated(1, 4, 5).with_columns(time=pl.lit(1.9e9))
    found = [finding.severity for finding in look(pl.concat([rated(1, 4, 5), more, more]))]
    assert found == sorted(found, reverse=True)
    assert set(found) == {"warning", "note"}
