"""What ranks highest under `strict`, of all that a main table shows: the methods as validation chose them, our recipe,
and the models that need no training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pspns.experiments import published
from pspns.experiments.methods import OURS, method_words
from pspns.experiments.records import Records, Seen
from pspns.experiments.reproduction._comparisons import cell_of, see_tuned

METRIC = "recall@20"
BASELINES = {"popular": "popular", "svd": "the SVD by itself", "ease": "EASE"}


@dataclass(frozen=True)
class Ranking:
    """Of one data set with one model."""

    best_first: tuple[tuple[str, Seen], ...]
    """What is compared, as it is called in words, with its record."""
    missing: tuple[str, ...]
    """Methods without a record."""
    untried: tuple[str, ...]
    """Methods at their defaults for want of trials."""
    cut_short: tuple[str, ...]
    """Methods that a lower limit of steps stopped than others had: not compared, as they might have risen still."""


def ranking(records: Records, data: str, model: str, table: str) -> Ranking:
    """`table`: the paper's, whose methods are compared."""
    found: dict[str, Seen] = {}
    missing, untried = [], []
    for method in (*published.tables()[table].methods, *OURS):
        cell, words = cell_of(data, model, method), method_words(method)
        tuned = see_tuned(records, cell)
        seen = tuned or records.see(cell)
        if seen is None:
            missing.append(words)
            continue
        found[words] = seen
        if tuned is None:
            untried.append(words)
    most = max((_limit(one) for one in found.values()), default=0)
    cut_short = [words for words, one in found.items() if one.limit and _limit(one) < most]
    found = {words: one for words, one in found.items() if words not in cut_short}
    as_it_is = records.see(cell_of(data, model, "uniform"))
    for name, words in BASELINES.items():
        baseline = as_it_is.of_baseline(name) if as_it_is else None
        if baseline:
            found[words] = baseline
    best_first = sorted(found.items(), key=lambda one: -one[1].mean(METRIC))
    untried = [words for words in untried if words in found]
    return Ranking(tuple(best_first), tuple(missing), tuple(untried), tuple(cut_short))


def on_top_words(rankings: Sequence[tuple[str, Ranking]]) -> Iterator[str]:
    """`rankings`: data set with model, and what ranks how there. Where a method is missing none is known to be highest.

    The winner is read off the test: told as what happened, and not tested for luck, which choosing it has spoiled.
    """
    complete = [(title, one) for title, one in rankings if one.best_first and not one.missing]
    if not complete:
        return
    told = []
    for title, one in complete:
        (first, best), (second, next_best) = one.best_first[:2]
        told.append(f"{first} on {title} ({_percent(best)}; next {second}, {_percent(next_best)})")
    untried = [f"{', '.join(one.untried)} on {title}" for title, one in complete if one.untried]
    at_defaults = f" Without trials, at their defaults: {'; '.join(untried)}." if untried else ""
    cut_short = [f"{', '.join(one.cut_short)} on {title}" for title, one in complete if one.cut_short]
    left_out = f" Not compared, as a lower limit of steps stopped them: {'; '.join(cut_short)}." if cut_short else ""
    yield (
        "Highest in Recall@20 under `strict`, of all methods as trials on validation chose them, `recommended`, "
        f"popular, the SVD by itself and EASE: {'; '.join(told)}. This is read off the test: on other data validation "
        f"must tell.{at_defaults}{left_out}"
    )


def _percent(seen: Seen) -> str:
    return f"{100 * seen.mean(METRIC):.2f}"


def _limit(seen: Seen) -> int:
    """Of steps."""
    return int(seen.record["settings"]["training"]["max_steps"])
