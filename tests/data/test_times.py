"""Times in the forms people write them; Python's datetime is the oracle."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest

import pspns
from pspns.data.times import UNITS, find_time_form, find_unit
from pspns.errors import DataError

MOMENT = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)
DAY = datetime(2021, 3, 4, tzinfo=UTC)


def read(values: list, asked: str | None = None) -> list:
    column = pl.Series("time", values)
    return find_time_form(column, asked).read(column).to_list()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2021-03-04", DAY),
        ("2021/03/04", DAY),
        ("2021/03/04 05:06:07", MOMENT),
        ("2021-03-04 05:06:07", MOMENT),
        ("2021-03-04T05:06:07Z", MOMENT),
        ("2021-03-04T05:06:07.25+00:00", MOMENT + timedelta(seconds=0.25)),
        ("2021-03-04T07:06:07+02:00", MOMENT),
        ("03 4, 2021", DAY),
        ("03 04, 2021", DAY),
        (MOMENT.strftime("%a %b %d %H:%M:%S %Y"), MOMENT),
        (MOMENT.strftime("%a %b %d %H:%M:%S +0000 %Y"), MOMENT),
        (MOMENT.astimezone(timezone(timedelta(hours=-5))).strftime("%a %b %d %H:%M:%S %z %Y"), MOMENT),
        ("1614834367", MOMENT),
        (" 1614834367.0 ", MOMENT),
    ],
)
def test_forms_that_are_told_from_a_value(text, expected):
    assert read([text, text]) == [expected.timestamp()] * 2


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("04/03/2021", "%d/%m/%Y", DAY),
        ("03/04/2021", "%m/%d/%Y", DAY),
        ("4.3.2021 05:06:07", "%d.%m.%Y %H:%M:%S", MOMENT),
        ("20210304", "%Y%m%d", DAY),
        ("04/03/2021 07:06:07 +0200", "%d/%m/%Y %H:%M:%S %z", MOMENT),
    ],
)
def test_forms_that_are_asked_for(text, asked, expected):
    assert read([text, "nonsense"], asked) == [expected.timestamp(), None]
    if text.isdecimal():
        assert read([int(text)], asked) == [expected.timestamp()]


def test_a_day_first_date_is_never_guessed(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item,date\n1,2,04/03/2021\n")
    with pytest.raises(DataError, match=r"line 2: column 'date' is '04/03/2021'; .* set time_format"):
        pspns.load(path)
    assert pspns.load(path, time_format="%d/%m/%Y").times.tolist() == [DAY.timestamp()]


def test_columns_of_dates():
    assert read([date(2021, 3, 4)]) == [DAY.timestamp()]
    assert read([MOMENT]) == [MOMENT.timestamp()]
    assert read([MOMENT.replace(tzinfo=None)]) == [MOMENT.timestamp()]


def test_one_column_has_one_form():
    assert read(["2021-03-04", "1614834367"]) == [DAY.timestamp(), None]
    assert read(["2021-02-30", "2021-03-04"]) == [None, DAY.timestamp()]
    assert read(["2021-02-30"]) == [None]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_by_their_size(tmp_path, unit):
    per_second = unit.per_second
    times = np.array([0, MOMENT.timestamp(), MOMENT.timestamp() + 60])
    assert find_unit(times * per_second) == unit
    path = tmp_path / "x.csv"
    path.write_text("user,item,timestamp\n" + "".join(f"1,{n},{t * per_second:.0f}\n" for n, t in enumerate(times)))
    found = pspns.load(path)
    np.testing.assert_allclose(found.times, times)
    assert (f"times read as {unit.name} since 1970" in found.facts) is (unit.name != "seconds")


def test_small_numbers_stay_as_they_are():
    assert find_unit(np.array([1.0, 2.0, 3.0])).per_second == 1


def test_the_unit_is_that_of_the_middle_not_of_the_ends():
    assert find_unit(np.array([-1.7e12, 1e9, 1.1e9, 1.2e9, 1.7e12])).name == "seconds"
    assert find_unit(np.array([1e9, 1.6e12, 1.7e12])).name == "milliseconds"
