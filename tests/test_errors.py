from __future__ import annotations

import pytest

from pspns.errors import DataError, PspnsError, SettingsError, StoppedError, blaming, nearest, unknown_name


def test_exit_codes() -> None:
    codes = [error.exit_code for error in (PspnsError, DataError, SettingsError, StoppedError)]
    assert codes == [1, 1, 2, 130]
    assert all(issubclass(error, PspnsError) for error in (DataError, SettingsError, StoppedError))


def test_unknown_name_lists_what_exists_and_the_nearest() -> None:
    said = str(unknown_name("recipe", "papre", ["plain", "paper"]))
    assert said == "no recipe named 'papre'; available: paper, plain (did you mean 'paper'?)"
    assert str(unknown_name("recipe", "xyz", ["plain"])) == "no recipe named 'xyz'; available: plain"


def test_nearest() -> None:
    assert nearest("recal", iter(["recall", "ndcg"])) == " (did you mean 'recall'?)"
    assert nearest("qqq", ["recall"]) == ""


def test_blaming_says_what_was_set_and_lets_other_errors_be() -> None:
    with pytest.raises(SettingsError, match=r"^--model: no such$"), blaming("--model"):
        raise SettingsError("no such")
    with pytest.raises(DataError, match=r"^gone$"), blaming("--model"):
        raise DataError("gone")
