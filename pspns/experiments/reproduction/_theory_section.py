"""What `theory` shows of its records: tables of margins, and whether each proposition holds as measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pspns.experiments.data_sets import known_data
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._beside import captioned
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell
from pspns.experiments.verdicts import Outcome, judge

PLANTED = "theory-planted-worlds"
KINDS = {
    "observed": "observed pairs",
    "psp": "PSP's pairs",
    "psp-ns": "PSP's pairs, weights t_u",
    "psp-ns, mean 1": "PSP's pairs, weights t_u of mean 1",
}
WATCHED = {
    "test": "held-out",
    "test, against the best": "held-out, against the best 20",
    "train": "train",
    "own": "rows of the steps",
    "true": "true, unseen",
}
OPTIMISERS = {"sgd": "SGD", "adam": "Adam"}
WEIGHTS = {
    "none": "none",
    "t_u": "t_u",
    "t_u, mean 1": "t_u of mean 1",
    "l2 / t_u": "none, but L2 of user u divided by t_u",
    "t_u for items alone": "t_u in the gradients of items alone",
}
BUILDERS = {
    "observed": "observed",
    "psp": "PSP, copies counted",
    "merged": "merged, each once",
    "agreement": "agreement (nothing injected)",
    "global": "global (proposals alone)",
}
STRAIGHT = 0.99
"""From this R² on, a growth is called one in a straight line."""

Steps = Sequence[Mapping[str, Any]]
"""One entry for each seed: kind of positives → optimiser → watched pairs → mean and error."""
Row = tuple[tuple[str, ...], tuple[TableCell, ...]]


@dataclass(frozen=True)
class Change:
    """Of mean margins, over steps and seeds."""

    mean: float
    error: float  # of that mean

    def is_above(self, other: Change) -> bool:
        """By more than two errors of the difference."""
        return self.mean - other.mean > 2 * math.hypot(self.error, other.error)


def change(steps: Steps, kind: str, optimiser: str, watched: str) -> Change:
    found = [one[kind][optimiser][watched] for one in steps]
    error = math.hypot(*(one["error"] for one in found)) / len(found)
    return Change(statistics.mean(one["mean"] for one in found), error)


@dataclass(frozen=True)
class Line:
    """A straight line through the changes at some factors of a weight."""

    slope: float
    r_squared: float
    last: float
    """The largest factor."""
    last_over_plain: float
    """The change there, in units of that at factor 1."""

    @property
    def is_in_proportion(self) -> bool:
        """Straight, and mostly by the factor: what other users move lies underneath."""
        return self.r_squared >= STRAIGHT and self.last_over_plain >= self.last / 2


def line(factors: Sequence[float], changes: Sequence[float]) -> Line:
    """Least squares, of changes in units of that at factor 1."""
    relative = np.array(changes) / changes[list(factors).index(1.0)]
    slope, start = np.polyfit(factors, relative, 1)
    left = relative - (slope * np.array(factors) + start)
    spread = ((relative - relative.mean()) ** 2).sum()
    r_squared = 1 - (left**2).sum() / spread if spread > 0 else 0.0
    return Line(float(slope), float(r_squared), factors[-1], float(relative[-1]))


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    words = [
        "Proposition 1 says that a step over PSP-NS's pairs widens the expected margin s(u, i) − s(u, j) more than one "
        "over observed pairs, proposition 2 that a user's margins grow in proportion to the weight t_u. Both are about "
        "one step of gradient descent. Here such steps are taken with MF from the same plainly trained state, by plain "
        "code of their own, and margins are watched that matter: those of held-out pairs over random items, and over "
        "the 20 items that the model would wrongly offer first, which is what Recall@20 hangs on."
    ]
    tables: list[Table] = []
    plots: list[Plot] = []
    for data in data_names:
        name, title = f"theory-{data}", known_data(data).title
        record = asked.find(name)
        tables += [
            _step_table(name, data, record),
            _growth_table(name, data, record),
            _control_table(name, data, record),
        ]
        if record:
            words += [_first_words(title, record), _second_words(title, record), _control_words(title, record)]
            plots.append(_growth_plot(name, title, record))
    planted = asked.find(PLANTED)
    tables += [_quality_table(planted), _truth_table(planted)]
    if planted:
        words.append(_planted_words(planted))
    return Section(
        name="theory",
        title="The propositions, measured",
        words=tuple(words),
        tables=tuple(tables),
        plots=tuple(plots),
        missing=tuple(asked.missing),
    )


# Words.


def wider_margins(record: Record | None) -> list[Outcome]:
    """Proposition 1: is the change by PSP-NS's pairs, with weights of mean 1, above that by observed ones, by more than
    luck can be?"""
    found = []
    for optimiser, how in OPTIMISERS.items():
        for watched in ("test", "test, against the best"):
            what = f"{how}, {WATCHED[watched]}"
            if record is None:
                found.append(Outcome(what, None))
                continue
            ours, plain = _compared(record["one_step"], optimiser, watched)
            luck = "" if ours.is_above(plain) or plain.is_above(ours) else "within two standard errors"
            figures = f"{_micro(ours)} against {_micro(plain)} millionths"
            found.append(Outcome(what, ours.is_above(plain), figures, luck))
    return found


def grown_margins(record: Record) -> list[Outcome]:
    """Proposition 2: do the least active users' own margins grow in proportion to their weights?"""
    found = []
    for optimiser, how in (("sgd", "a step of SGD"), ("adam", f"{record['batches']} steps of Adam")):
        if fitted := line_of(record, optimiser, "own"):
            figures = (
                f"{fitted.last_over_plain:.2f} times the change at {fitted.last:g} times the weight, R² of a straight "
                f"line {fitted.r_squared:.3f}"
            )
            found.append(Outcome(how, fitted.is_in_proportion, figures))
    return found


def _first_words(title: str, record: Record) -> str:
    steps = record["one_step"]
    outcomes = wider_margins(record)
    mean_weight = statistics.mean(one["psp-ns"]["mean_weight"] for one in steps)
    own = statistics.mean(one["psp-ns"]["sgd"]["own"]["mean"] / one["psp-ns"]["promised_of_own"] for one in steps)
    return (
        f"Proposition 1 on {title}, after {record['steps_before']:,} plain steps. That a step over PSP-NS's pairs, "
        f"with weights of mean 1, widens margins more than one over observed pairs {judge(outcomes).word}: "
        f"{'; '.join(map(str, outcomes))}. (As they are, weights have mean {mean_weight:.2f}, and a step of SGD is as "
        f"many times as long, whatever the pairs.) A step changes the margins of its own rows by {own:.2f} times the "
        f"first-order term of the proof, which is {'a lower bound as claimed' if own >= 1 else 'no lower bound here'}."
    )


def _second_words(title: str, record: Record) -> str:
    outcomes = grown_margins(record)
    if not outcomes:
        return f"Proposition 2 on {title}: the least active users have no pairs to watch."
    told = "; ".join(f"{one}, so it {judge([one]).word}" for one in outcomes)
    others = ", ".join(
        f"{_last_over_plain(record, pairs)} times as large for {WATCHED[pairs]} pairs"
        for pairs in ("train", "test")
        if line_of(record, "sgd", pairs)
    )
    return (
        f"Proposition 2 on {title}, by the weights of the least active tenth of users, for the rows of the steps "
        f"themselves: {told}. The proof has SGD in mind; what trains is Adam, which divides a gradient by its own "
        f"size. Over all their pairs, stepped over or not, the mean change by SGD is {others}."
    )


def _last_over_plain(record: Record, pairs: str) -> str:
    """The change by SGD at the largest factor, in units of that at factor 1, with its error."""
    means, errors = (_grown(record, "sgd", pairs, what) for what in ("means", "errors"))
    plain = means[list(record["factors"]).index(1.0)]
    return f"{means[-1] / plain:.2f} ± {abs(errors[-1] / plain):.2f}"


def _compared(steps: Steps, optimiser: str, watched: str) -> tuple[Change, Change]:
    """PSP-NS's step, with weights of mean 1, and that of observed pairs."""
    return change(steps, "psp-ns, mean 1", optimiser, watched), change(steps, "observed", optimiser, watched)


def _control_words(title: str, record: Record) -> str:
    shares = {name: _share_of_effect(record, name, "train") for name in WEIGHTS if name not in ("none", "t_u")}
    if any(share is None for share in shares.values()):
        return f"Controls on {title}: under Adam t_u changes nothing that could be shared out."
    told = ", ".join(f"*{WEIGHTS[name]}* {100 * (share or 0):.0f} %" for name, share in shares.items())
    by_l2, by_items = shares["l2 / t_u"] or 0.0, shares["t_u for items alone"] or 0.0
    if abs(by_items - 1) < 0.25 and abs(by_l2) < 0.25:
        reading = "t_u acts through the items' vectors, which many users share, and not as an L2 of each user"
    elif abs(by_l2 - 1) < 0.25:
        reading = "t_u acts as an L2 of each user"
    else:
        reading = "neither a per-user L2 nor the items' vectors alone explain it"
    change = _mean_of(record, "t_u", "adam", "inactive", "test") - _mean_of(record, "none", "adam", "inactive", "test")
    return (
        f"What t_u does on {title} in {record['steps_of_controls']:,} steps of Adam: of its effect on the margins of "
        f"the least active users' train pairs, others have: {told}. So {reading}. Their held-out margins end "
        f"{abs(change):.3f} {'higher' if change > 0 else 'lower'} with t_u than without."
    )


def _planted_words(record: Record) -> str:
    worlds = record["worlds"]
    better = {
        figure: [
            kind for kind, one in worlds.items() if _quality(one, "psp", figure) > _quality(one, "observed", figure)
        ]
        for figure in ("accuracy", "coverage")
    }
    true = [kind for kind, one in worlds.items() if _is_wider(one["one_step"], "sgd", "true")]
    by_adam = [kind for kind, one in worlds.items() if _is_wider(one["one_step"], "adam", "true")]
    of_all = f"of {len(worlds)} planted worlds"
    return (
        f"Where the truth is planted: PSP's pairs are true more often than observed ones in {len(better['accuracy'])} "
        f"{of_all}{_in_brackets(better['accuracy'])}, and cover more of the truth in {len(better['coverage'])}"
        f"{_in_brackets(better['coverage'])}. The margins of true preferences that train does not have widen more by a "
        f"step over PSP-NS's pairs than by one over observed pairs in {len(true)} worlds under SGD"
        f"{_in_brackets(true)}, in {len(by_adam)} under Adam{_in_brackets(by_adam)}."
    )


def _is_wider(steps: Steps, optimiser: str, watched: str) -> bool:
    ours, plain = _compared(steps, optimiser, watched)
    return ours.is_above(plain)


def _quality(world: Mapping[str, Any], builder: str, figure: str) -> float:
    return float(world["builders"][builder][figure])


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _micro(found: Change) -> str:
    return f"{1e6 * found.mean:.1f} ± {1e6 * found.error:.1f}"


def line_of(record: Record, optimiser: str, pairs: str) -> Line | None:
    """Through the changes of the least active users' margins; None where they have no such pairs."""
    means = _grown(record, optimiser, pairs)
    return line(record["factors"], means) if means else None


def _grown(record: Record, optimiser: str, pairs: str, what: str = "means") -> list[float]:
    """Change at each factor, or its error, mean over seeds that have such pairs; empty where none has."""
    seeds = [found for one in record["growth"] if (found := one[optimiser][pairs][what])]
    return list(np.mean(seeds, axis=0).tolist()) if seeds else []


def _mean_of(record: Record, weights: str, optimiser: str, group: str, figure: str) -> float:
    values = [one[weights][optimiser][group].get(figure) for one in record["controls"]]
    return statistics.mean(values) if None not in values else math.nan


def _share_of_effect(record: Record, weights: str, pairs: str) -> float | None:
    """Of what t_u changes under Adam for the least active users, beside no weights."""
    none, whole, found = (_mean_of(record, name, "adam", "inactive", pairs) for name in ("none", "t_u", weights))
    return (found - none) / (whole - none) if whole != none and not math.isnan(whole + none) else None


# Tables.


def _step_cells(name: str, steps: Steps | None, kind: str, watched: Iterable[str]) -> list[TableCell]:
    cells: list[TableCell] = []
    for optimiser in OPTIMISERS:
        for pairs in watched:
            found = change(steps, kind, optimiser, pairs) if steps else None
            cells.append(Number(1e6 * found.mean, digits=2, spread=1e6 * found.error, record=name) if found else None)
    return cells


def _step_table(name: str, data: str, record: Record | None) -> Table:
    watched = ("test", "test, against the best", "train")
    rows: list[Row] = []
    for kind, words in KINDS.items():
        steps = record["one_step"] if record else None
        weight = statistics.mean(one[kind]["mean_weight"] for one in steps) if steps else None
        first = Number(weight, record=name) if weight is not None else None
        rows.append(((words,), (first, *_step_cells(name, steps, kind, watched))))
    return Table(
        name=f"{name}-one-step",
        caption=captioned(data, "change of mean margins by one step"),
        heads=("positives of the step",),
        columns=(
            "mean weight",
            *(f"{how}: {WATCHED[pairs]}" for how in OPTIMISERS.values() for pairs in watched),
        ),
        rows=tuple(rows),
        note=(
            "In 10⁻⁶; ± is the standard error over steps, all from the same state. Adam's steps are longer: without a "
            "memory yet, they move what they touch by the learning rate, however small the gradient. Negatives of "
            "watched pairs are random items outside train, or of the 20 that the model ranks highest."
        ),
    )


def _growth_table(name: str, data: str, record: Record | None) -> Table:
    factors = record["factors"] if record else (0.5, 1.0, 2.0, 4.0, 8.0)
    rows: list[Row] = []
    for optimiser, how in OPTIMISERS.items():
        for pairs in ("own", "train", "test"):
            fitted = line_of(record, optimiser, pairs) if record else None
            cells: list[TableCell] = [None] * (len(factors) + 2)
            if record and fitted:
                means, errors = (_grown(record, optimiser, pairs, what) for what in ("means", "errors"))
                plain = means[list(factors).index(1.0)]
                cells = [
                    Number(mean / plain, spread=abs(error / plain) if error else None, record=name)
                    for mean, error in zip(means, errors, strict=True)
                ]
                cells += [Number(fitted.slope, record=name), Number(fitted.r_squared, digits=4, record=name)]
            rows.append(((how, WATCHED[pairs]), tuple(cells)))
    return Table(
        name=f"{name}-growth",
        caption=captioned(data, "change of the least active users' margins by the factor of their weights"),
        heads=("optimiser", "pairs"),
        columns=(*(f"× {factor:g}" for factor in factors), "slope", "R² of a straight line"),
        rows=tuple(rows),
        note=(
            "In units of the change at factor 1; in proportion would be 0.5, 1, 2, 4, 8. ± is the standard error of "
            "the difference from factor 1 over steps. *Rows of the steps*: the pairs that were stepped over, with "
            "their negatives. SGD: single steps from the same state. Adam: a run of as many steps."
        ),
    )


def _control_table(name: str, data: str, record: Record | None) -> Table:
    columns = [("sgd", "inactive", "train"), ("sgd", "inactive", "test")]
    columns += [("adam", group, figure) for group in ("inactive", "others") for figure in ("train", "test", "length")]
    rows: list[Row] = []
    for weights, words in WEIGHTS.items():
        cells: list[TableCell] = []
        for column in columns:
            value = _mean_of(record, weights, *column) if record else math.nan
            cells.append(None if math.isnan(value) else Number(value, digits=4, record=name))
        rows.append(((words,), tuple(cells)))
    groups = {"inactive": "least active tenth", "others": "others"}
    of_figure = {"train": "train margin", "test": "held-out margin", "length": "length of vectors"}
    return Table(
        name=f"{name}-controls",
        caption=captioned(data, "what user weights do, and what else does it"),
        heads=("weights",),
        columns=tuple(f"{OPTIMISERS[how]}, {groups[group]}: {of_figure[figure]}" for how, group, figure in columns),
        rows=tuple(rows),
        note="Changes of mean margins over PSP's pairs, and mean lengths of user vectors at the end; means over seeds.",
    )


def _quality_table(record: Record | None) -> Table:
    rows: list[Row] = []
    for world, found in (record["worlds"] if record else {}).items():
        for builder, words in BUILDERS.items():
            cells = [
                Number(100 * _quality(found, builder, figure), record=PLANTED) for figure in ("accuracy", "coverage")
            ]
            rows.append(((world, words), tuple(cells)))
    return Table(
        name="theory-accuracy-coverage",
        caption="Accuracy and coverage of positives where the truth is planted",
        heads=("world", "positives"),
        columns=("accuracy", "coverage"),
        rows=tuple(rows),
        note="In percent, against all that users truly like; exact. A fifth of the observed pairs are false.",
    )


def _truth_table(record: Record | None) -> Table:
    rows: list[Row] = []
    for world, found in (record["worlds"] if record else {}).items():
        for kind, words in KINDS.items():
            rows.append(((world, words), tuple(_step_cells(PLANTED, found["one_step"], kind, ("true", "test")))))
    return Table(
        name="theory-true-margins",
        caption="Change of mean margins by one step where the truth is planted",
        heads=("world", "positives of the step"),
        columns=tuple(f"{how}: {WATCHED[pairs]}" for how in OPTIMISERS.values() for pairs in ("true", "test")),
        rows=tuple(rows),
        note="In 10⁻⁶; ± is the standard error over steps. *True, unseen*: liked and not in train, over what is not.",
    )


def _growth_plot(name: str, title: str, record: Record) -> Plot:
    factors = tuple(record["factors"])
    series = [Series("in proportion", factors, factors, is_guide=True)]
    for optimiser, how in OPTIMISERS.items():
        if means := _grown(record, optimiser, "own"):
            plain = means[factors.index(1.0)]
            series.append(Series(how, factors, tuple(mean / plain for mean in means)))
    return Plot(
        name=f"{name}-growth",
        caption=f"{title}: change of the least active users' margins, in the rows of the steps, by their weights",
        x="factor of the weights",
        y="change, in units of that at factor 1",
        series=tuple(series),
        logarithmic=True,
        logarithmic_y=all(y > 0 for one in series for y in one.ys),
    )
