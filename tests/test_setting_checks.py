"""Checks of settings: what was given, what was expected, where to change it."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from pspns.errors import SettingsError
from pspns.setting_checks import (
    check_above_zero,
    check_below_one,
    check_choice,
    check_drop_rate,
    check_finite,
    check_least,
    check_share,
)

NAN, INFINITY = float("nan"), float("inf")
Colour = Literal["red", "green"]


@dataclass
class Part:
    """As one of denoising/ would be."""

    value: Any = 0.5
    drop_rate: float = 0.2
    ramp_epochs: float = 1.0
    ramp_steps: int | None = None


Part.__module__ = "pspns.denoising.made_up"

# check, values that are right, values that are not, and what is expected instead
CHECKS = [
    (lambda part: check_finite(part, "value"), (0, -3.5, 1e300), (NAN, INFINITY, -INFINITY), "a finite number"),
    (lambda part: check_least(part, value=1), (1, 1.0, 5), (0, 0.999999, -1), "at least 1"),
    (lambda part: check_least(part, value=0.25), (0.25, 2), (0.2, 0), "at least 0.25"),
    (lambda part: check_least(part, value=1), (1,), (NAN, INFINITY), "a finite number"),
    (lambda part: check_above_zero(part, "value"), (1e-12, 3), (0, 0.0, -2), "above 0"),
    (lambda part: check_above_zero(part, "value"), (1,), (NAN, INFINITY), "a finite number"),
    (lambda part: check_below_one(part, "value"), (0, 0.999, -4), (1, 1.5, NAN, INFINITY), "below 1"),
    (lambda part: check_share(part, "value"), (0, 1, 0.3, None), (-0.1, 1.1, NAN, INFINITY), "from 0 to 1"),
    (lambda part: check_choice(part, "value", Colour), ("red", "green"), ("blue", "", None), "red or green"),
]


@pytest.mark.parametrize(("check", "good", "bad", "expected"), CHECKS)
def test_passes_what_is_right_and_names_what_is_not(check, good, bad, expected):
    for value in good:
        check(Part(value))
    for value in bad:
        with pytest.raises(SettingsError) as error:
            check(Part(value))
        given = f"'{value}'" if value is None or isinstance(value, str) else f"{value:g}"
        assert str(error.value) == f"value must be {expected}, got {given}; change [denoiser] value"


def test_all_settings_that_are_named_are_looked_at():
    @dataclass
    class Two:
        first: float = 1.0
        second: float = 1.0

    for check in (check_finite, check_above_zero, check_below_one, check_share):
        for name in ("first", "second"):
            with pytest.raises(SettingsError, match=f"^{name} must be"):
                check(Two(**{"first": 0.5, "second": 0.5, name: NAN}), "first", "second")
    with pytest.raises(SettingsError, match=r"^second must be at least 2, got 1$"):
        check_least(Two(), first=1, second=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop_rate": 1.0}, "drop_rate must be at least 0 and below 1, got 1;"),
        ({"drop_rate": -0.1}, "drop_rate must be at least 0 and below 1, got -0.1;"),
        ({"drop_rate": NAN}, "drop_rate must be at least 0 and below 1, got nan;"),
        ({"ramp_epochs": 0.0}, "ramp_epochs must be above 0, got 0;"),
        ({"ramp_epochs": INFINITY}, "ramp_epochs must be a finite number, got inf;"),
        ({"ramp_steps": 0}, "ramp_steps must be at least 1, got 0;"),
    ],
)
def test_a_rate_that_grows(changes, message):
    with pytest.raises(SettingsError) as error:
        check_drop_rate(Part(**changes))
    assert str(error.value).startswith(message)


def test_a_rate_that_grows_may_be_anything_sensible():
    for changes in ({}, {"drop_rate": 0.0}, {"drop_rate": 0.99}, {"ramp_epochs": 0.01}, {"ramp_steps": 1}):
        check_drop_rate(Part(**changes))


def test_a_value_just_beyond_the_border_is_not_called_the_border():
    with pytest.raises(SettingsError, match=r"from 0 to 1, got 1\.0000001;"):
        check_share(Part(1.0000001), "value")
    with pytest.raises(SettingsError, match="at least 1, got -1234567;"):
        check_least(Part(-1234567), value=1)


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("pspns.denoising.dcf", "; change [denoiser] value"),
        ("pspns.negatives.dns", "; change [negatives] value"),
        ("somebody.elsewhere", ""),
    ],
)
def test_advice_names_the_section_of_the_part(module, advice, monkeypatch):
    monkeypatch.setattr(Part, "__module__", module)
    with pytest.raises(SettingsError) as error:
        check_above_zero(Part(-1), "value")
    assert str(error.value) == f"value must be above 0, got -1{advice}"
