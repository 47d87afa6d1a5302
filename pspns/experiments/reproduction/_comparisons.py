"""The comparisons that a claim consists of: as the paper prints them, and as the records have them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pspns.evaluation.significance import holm
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import builds_pairs, method_words, trained_as
from pspns.experiments.published import Claim
from pspns.experiments.records import (
    Records,
    Seen,
    are_alike,
    is_ahead_on_validation,
    p_value,
    p_value_of_seeds,
)
from pspns.experiments.reproduction._beside import words
from pspns.experiments.reproduction._curves import CLEAR
from pspns.experiments.trials import Trials, tuned_cell
from pspns.experiments.user_groups import groups
from pspns.experiments.verdicts import CUT_SHORT, Outcome

# Of claims that a picture or nothing shows; the pictures' data sets are not named, so those that most tables have.
MODEL, METRICS, DATA = "lightgcn", ("recall@20", "precision@20"), published.tables()["variants"].data
UNTESTED = "not tested"
"""Said of differences that might be luck for all that records tell."""
USERS = {"all": "", "inactive": ", inactive users", "other": ", other users"}


@dataclass(frozen=True)
class Single:
    """One method above another, in one metric of one group of users."""

    data: str
    model: str
    metric: str
    users: str
    better: str
    worse: str


def singles(claim: Claim, data_names: Iterable[str]) -> Iterator[Single]:
    """All comparisons of a claim on these data sets."""
    table = published.tables().get(claim.shown_in)
    model, metrics, users = table.model if table else MODEL, claim.metrics or METRICS, claim.users or ("all",)
    for data, comparison in itertools.product(data_names, claim.comparisons):
        for metric, group, *methods in itertools.product(metrics, users, comparison.better, comparison.worse):
            yield Single(data, model, metric, group, *methods)


def is_about(claim: Claim, data: str) -> bool:
    """Whether the paper makes the claim of this data set. Data sets that it does not have are as good as any, but for
    claims of a single one."""
    printed_as = known_data(data).printed_as
    return printed_as in (claim.data or DATA) if printed_as else len(claim.data) != 1


def of_paper(data_names: Iterable[str], table: str) -> Iterator[str]:
    """Those that stand beside a data set of the table, and those that stand for themselves."""
    for data in data_names:
        if not known_data(data).printed_as or known_data(data).printed_as in published.tables()[table].data:
            yield data


def run_on(experiment: Experiment, data_names: Iterable[str]) -> list[str]:
    """Those that the experiment is usually run on, and those that the paper does not have."""
    return [data for data in data_names if data in experiment.data or not known_data(data).printed_as]


def cells_of(claim: Claim, data: str) -> Iterator[Cell]:
    """What must be trained so that the claim can be checked under both protocols."""
    for single in singles(claim, [data] if is_about(claim, data) else []):
        for method in (single.better, single.worse):
            cell = cell_of(data, single.model, method)
            yield cell
            if builds_pairs(cell.method):
                yield cell.but(protocol="published")


def cell_of(data: str, model: str, method: str, protocol: str = "strict") -> Cell:
    """Of methods that are made of the same parts the first one's.

    >>> cell_of("ml-1m", "lightgcn", "observed").method
    'uniform'
    """
    return Cell(data, model, trained_as(method), protocol)


def see_alike(records: Records, cells: Sequence[Cell]) -> list[Seen | None]:
    """Records that may be compared: with settings that trials on validation chose, if all cells had trials that can
    have them; else all as they are. Under `published` what builds no pairs has none, as in the paper."""
    alike = _all_tuned(records, cells)
    return [alike.get(cell) or records.see(cell) for cell in cells]


def are_tuned(records: Records, cells: Sequence[Cell]) -> bool:
    """Whether `see_alike` sees them as trials chose them."""
    return bool(_all_tuned(records, cells))


def _all_tuned(records: Records, cells: Sequence[Cell]) -> dict[Cell, Seen]:
    """Empty unless all cells had trials that can have them."""
    can = [cell for cell in cells if cell.protocol == "strict" or builds_pairs(cell.method)]
    tuned = {cell: found for cell in can if (found := see_tuned(records, cell))}
    return tuned if len(tuned) == len(set(can)) else {}


def see_tuned(records: Records, cell: Cell) -> Seen | None:
    """As trials chose it, or at its defaults where these came to more on validation once both were trained to the end:
    trials are short, and favour what learns fast. None where there were no trials, which is no lack."""
    chosen = tuned_cell(records, cell) if records.has(Trials(cell).name) else None
    found = records.see(chosen) if chosen and records.has(chosen.name) else None
    at_defaults = records.see(cell) if found and records.has(cell.name) else None
    return at_defaults if found and at_defaults and is_ahead_on_validation(at_defaults, found) else found


def is_given_up(records: Records, cell: Cell) -> bool:
    """Whether the defaults stand in place of other settings that trials chose."""
    chosen, seen = tuned_cell(records, cell), see_tuned(records, cell)
    return bool(chosen and seen and chosen.name != seen.name)


def measured(claim: Claim, records: Records, data_names: Sequence[str], protocol: str) -> list[Outcome]:
    return compared(records, singles(claim, [data for data in data_names if is_about(claim, data)]), protocol)


def compared(records: Records, wanted: Iterable[Single], protocol: str) -> list[Outcome]:
    """What the records say of each."""
    pairs = []
    for single in wanted:
        cells = [cell_of(single.data, single.model, method, protocol) for method in (single.better, single.worse)]
        one, other = see_alike(records, cells)
        title = known_data(single.data).title
        what = f"{title}, {words(single.metric)}{USERS[single.users]}, {_methods(single)}"
        pairs.append(Pair(what, one, other, single.metric, single.users))
    return decide(pairs)


@dataclass(frozen=True)
class Pair:
    """Two records of which the first is said to be better."""

    what: str
    one: Seen | None
    other: Seen | None
    metric: str = "recall@20"
    users: str = "all"


def decide(pairs: Iterable[Pair]) -> list[Outcome]:
    """Differences are told from luck by a sign-flip test over users, else by Welch's test over seeds, corrected for
    being several. Of groups of users records keep neither, so nobody can tell."""
    outcomes: list[Outcome] = []
    p_values: dict[int, float] = {}
    for pair in pairs:
        one, other = pair.one, pair.other
        high, low = (figure(seen, pair.metric, pair.users) if seen else None for seen in (one, other))
        if one is None or other is None or high is None or low is None:
            outcomes.append(Outcome(pair.what, None))
            continue
        if not are_alike(one, other):
            outcomes.append(Outcome(pair.what, None, why_not=CUT_SHORT))
            continue
        p = _p_value(one, other, pair.metric) if pair.users == "all" else None
        if p is not None:
            p_values[len(outcomes)] = p
        outcomes.append(Outcome(pair.what, high > low, _figures(high, low), UNTESTED, records=(one.name, other.name)))
    return told_from_luck(outcomes, p_values)


def told_from_luck(outcomes: Sequence[Outcome], p_values: Mapping[int, float]) -> list[Outcome]:
    """With what the p-values, by number of the outcome, say of them, corrected for being several."""
    told = list(outcomes)
    for index, p in zip(p_values, holm(list(p_values.values())).tolist(), strict=True):
        told[index] = replace(told[index], luck=f"p = {p:.2f}" if p >= CLEAR else "")
    return told


def in_print(claim: Claim) -> list[Outcome]:
    """What the paper's own figures say; nothing of a claim that no table shows."""
    if claim.shown_in not in published.tables():
        return []
    found = []
    for single in singles(claim, claim.data):
        high, low = (
            published.printed(claim.shown_in, single.data, single.model, method, single.metric, users=single.users)
            for method in (single.better, single.worse)
        )
        if high is not None and low is not None:
            title = published.data_sets()[single.data].paper
            what = f"{title}, {words(single.metric)}{USERS[single.users]}, {_methods(single)}"
            found.append(Outcome(what, high > low, _figures(high, low)))
    return found


def figure(seen: Seen, metric: str, users: str) -> float | None:
    """In percent, of a group of users. Records keep groups under the mask of their own protocol alone."""
    if users == "all":
        return 100 * seen.mean(metric)
    group = groups(seen).get(users)
    return 100 * group.figures[metric] if group else None


def _p_value(one: Seen, other: Seen, metric: str) -> float | None:
    over_users = p_value(one, other, metric)
    return p_value_of_seeds(one, other, metric) if over_users is None else over_users


def _methods(single: Single) -> str:
    return f"{method_words(single.better)} against {method_words(single.worse)}"


def _figures(high: float, low: float) -> str:
    return f"{high:.2f} against {low:.2f}"
