"""Verdicts on claims: does what was measured bear a claim out, and which figures decide it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
NOT_MEASURED, UNTESTABLE = "not measured", "cannot be tested"
DECIDED = (HOLDS, IN_PART, FAILS)
WORDS = (HOLDS, IN_PART, FAILS, NOT_MEASURED, UNTESTABLE)
PLURALS = {HOLDS: "hold", IN_PART: "hold in part", FAILS: "do not hold", NOT_MEASURED: "were not measured"}
CUT_SHORT = "a lower limit of steps stopped one of the two"
"""Why records that are there may not be compared."""


@dataclass(frozen=True)
class Outcome:
    """One comparison of a claim."""

    what: str
    """Of what with what, in words."""
    holds: bool | None
    """Whether the mean is on the claimed side; None: nobody can tell."""
    figures: str = ""
    luck: str = ""
    """Why the difference may be luck; empty: it is more, or nobody can tell."""
    why_not: str = ""
    """Why nobody can tell; empty: there is no record yet."""
    records: tuple[str, ...] = ()
    """Names of those that the figures were read from."""

    def __str__(self) -> str:
        return f"{self.what}: {self.figures}{f' ({self.luck})' if self.luck else ''}"


@dataclass(frozen=True)
class Verdict:
    word: str
    why: str = ""
    """In short: how many comparisons there are, and one that fails."""
    outcomes: tuple[Outcome, ...] = ()
    """All that were measured; first those that fail, and of these first those that are no luck."""

    def __post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"{self.word!r} is no verdict; there are {WORDS}")

    def __str__(self) -> str:
        return f"{self.word}: {self.why}" if self.why else self.word


NO_RECORD = Verdict(NOT_MEASURED, "no record yet")


def judge(
    outcomes: Sequence[Outcome], *, often: bool = False, everywhere: bool = False, of: str = "comparisons"
) -> Verdict:
    """Of all comparisons of a claim. One that is said to hold often needs more than half of them; one that is said to
    hold everywhere is refuted by a single one, unless that may be luck.

    >>> str(judge([Outcome("A against B", True, "2.1 against 2.0"), Outcome("A against C", False, "2.1 against 2.2")]))
    'holds in part: 1 of 2 comparisons; fails: A against C: 2.1 against 2.2'
    """
    measured = [one for one in outcomes if one.holds is not None]
    if not measured:
        return (
            Verdict(NOT_MEASURED, "; ".join(_untold(outcomes))) if any(one.why_not for one in outcomes) else NO_RECORD
        )
    held = [one for one in measured if one.holds]
    failed = sorted((one for one in measured if not one.holds), key=lambda one: bool(one.luck))
    enough = len(held) > len(measured) / 2 if often else not failed
    is_refuted = not held or (everywhere and any(not one.luck for one in failed))
    word = HOLDS if enough else FAILS if is_refuted else IN_PART
    why = "; ".join((*_reasons(measured, held, failed, of), *_untold(outcomes)))
    return Verdict(word, why, (*failed, *held))


def _reasons(measured: Sequence[Outcome], held: Sequence[Outcome], failed: Sequence[Outcome], of: str) -> Iterable[str]:
    if len(measured) == 1:
        yield str(measured[0])
    else:
        share = "all" if not failed else "none of" if not held else f"{len(held)} of"
        yield f"{share} {len(measured)} {of}"
        if failed:
            yield f"{'fails' if len(failed) == 1 else 'fails, for example'}: {failed[0]}"
        if in_doubt := [one for one in held if one.luck]:
            yield f"{len(in_doubt)} of those that hold may be luck"


def _untold(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """How many cannot be told, and why."""
    counts = Counter(one.why_not for one in outcomes if one.holds is None)
    for why_not, n in sorted(counts.items(), reverse=True):
        yield f"{n} not compared: {why_not}" if why_not else f"{n} not measured yet"


def together(*verdicts: Verdict) -> Verdict:
    """One claim, looked at in several ways: it holds if it does in all of them, and does not if it does not in one.

    >>> str(together(Verdict("holds", "a"), NO_RECORD))
    'holds in part: a. Beside it, not measured: no record yet'
    """
    measured = [one for one in verdicts if one.word in DECIDED]
    if not measured:
        return verdicts[0]
    words = {one.word for one in measured}
    open_ways = [f"Beside it, {one}" for one in verdicts if one.word not in DECIDED]
    word = FAILS if FAILS in words else IN_PART if IN_PART in words else HOLDS
    return Verdict(
        IN_PART if word == HOLDS and open_ways else word,
        ". ".join([*(one.why for one in measured if one.why), *open_ways]),
        tuple(outcome for one in measured for outcome in one.outcomes),
    )


def count_words(verdicts: Iterable[Verdict]) -> str:
    """How many of each.

    >>> count_words([Verdict("holds"), Verdict("does not hold"), Verdict("does not hold")])
    '1 holds, 2 do not hold'
    """
    counts = Counter(one.word for one in verdicts)
    singular = {word: word for word in WORDS} | {NOT_MEASURED: "was not measured"}
    return ", ".join(
        f"{counts[word]} {singular[word] if counts[word] == 1 else PLURALS.get(word, word)}"
        for word in WORDS
        if counts[word]
    )
