"""Verdicts of outcomes made by hand."""

import pytest

from pspns.experiments.verdicts import NO_RECORD, Outcome, Verdict, count_words, judge, together


def outcome(what, holds, luck=""):
    return Outcome(what, holds, "2.00 against 1.00" if holds else "1.00 against 2.00", luck)


def test_nothing_measured_is_no_verdict():
    assert str(judge([Outcome("a", None), Outcome("b", None)])) == "not measured: no record yet"
    assert judge([]) == NO_RECORD


def test_all_hold():
    few = judge([outcome("a", True), outcome("b", True)])
    assert str(few) == "holds: all 2 comparisons"
    assert few.outcomes == (outcome("a", True), outcome("b", True))
    assert str(judge([outcome("a", True)])) == "holds: a: 2.00 against 1.00"


def test_none_holds():
    assert str(judge([outcome("a", False)])) == "does not hold: a: 1.00 against 2.00"
    many = judge([outcome(letter, False) for letter in "abcdefg"])
    assert str(many) == "does not hold: none of 7 comparisons; fails, for example: a: 1.00 against 2.00"


def test_some_hold_and_those_that_fail_come_first():
    found = judge([*(outcome(letter, letter < "c") for letter in "abcde"), Outcome("f", None)])
    assert str(found) == (
        "holds in part: 2 of 5 comparisons; fails, for example: c: 1.00 against 2.00; 1 not measured yet"
    )
    assert [one.what for one in found.outcomes] == ["c", "d", "e", "a", "b"]
    assert str(judge([outcome("a", True), outcome("b", False)])) == (
        "holds in part: 1 of 2 comparisons; fails: b: 1.00 against 2.00"
    )


def test_what_is_said_to_hold_often_needs_more_than_half():
    for n_held, expected in ((0, "does not hold"), (2, "holds in part"), (3, "holds"), (4, "holds")):
        outcomes = [outcome(str(number), number < n_held) for number in range(4)]
        assert judge(outcomes, often=True).word == expected
        assert judge(outcomes).word == ("holds" if n_held == 4 else "holds in part" if n_held else "does not hold")


def test_what_is_said_of_all_is_refuted_by_one_unless_that_may_be_luck():
    held = [outcome("a", True), outcome("b", True)]
    assert judge([*held, outcome("c", False)], everywhere=True).word == "does not hold"
    assert judge([*held, outcome("c", False)]).word == "holds in part"
    assert judge([*held, outcome("c", False, "p = 0.30")], everywhere=True).word == "holds in part"
    assert judge(held, everywhere=True).word == "holds"


def test_what_is_missing_is_counted_and_decides_nothing():
    assert str(judge([outcome("a", True), Outcome("b", None)])) == "holds: a: 2.00 against 1.00; 1 not measured yet"
    cut_short = Outcome("c", None, why_not="cut short")
    assert str(judge([outcome("a", True), Outcome("b", None), cut_short, cut_short])) == (
        "holds: a: 2.00 against 1.00; 2 not compared: cut short; 1 not measured yet"
    )
    assert str(judge([cut_short])) == "not measured: 1 not compared: cut short"


def test_luck_is_named():
    assert str(judge([outcome("a", True, "p = 0.30")])) == "holds: a: 2.00 against 1.00 (p = 0.30)"
    mixed = judge([outcome("a", True, "p = 0.30"), outcome("b", True), outcome("c", False, "p = 0.20")])
    assert str(mixed) == (
        "holds in part: 2 of 3 comparisons; fails: c: 1.00 against 2.00 (p = 0.20); 1 of those that hold may be luck"
    )
    clear = judge([outcome("a", True), outcome("b", False, "p = 0.20"), outcome("c", False)])
    assert "fails, for example: c:" in clear.why  # what may be luck is the worse example
    assert "4 of those that hold may be luck" in judge([outcome(letter, True, "luck") for letter in "abcd"]).why


def test_a_claim_looked_at_in_two_ways_needs_both_and_has_all_outcomes():
    first, second = judge([outcome("a", True)]), judge([outcome("b", False)])
    assert together(first, NO_RECORD, second).outcomes == (outcome("a", True), outcome("b", False))
    holds, fails = Verdict("holds", "a"), Verdict("does not hold", "b")
    assert together(holds, holds).word == "holds"
    assert str(together(holds, fails)) == "does not hold: a. b"
    assert together(holds, Verdict("holds in part")).word == "holds in part"
    assert str(together(NO_RECORD, fails)) == "does not hold: b. Beside it, not measured: no record yet"
    assert together(NO_RECORD, holds).word == "holds in part"
    assert together(NO_RECORD, NO_RECORD) == NO_RECORD
    assert together(Verdict("cannot be tested", "why")).why == "why"


def test_verdicts_are_counted_in_words():
    verdicts = [Verdict("holds")] * 2 + [Verdict("not measured"), Verdict("cannot be tested")]
    assert count_words(verdicts) == "2 hold, 1 was not measured, 1 cannot be tested"
    assert count_words([NO_RECORD, NO_RECORD]) == "2 were not measured"


def test_there_are_five_verdicts():
    with pytest.raises(ValueError, match="'perhaps' is no verdict"):
        Verdict("perhaps")
