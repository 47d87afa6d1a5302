"""How fast methods learn: validation Recall@20 by steps and by seconds, each method trained alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import PSP_NS, builds_pairs, method_words
from pspns.experiments.records import Record, Records
from pspns.experiments.reproduction._beside import captioned
from pspns.experiments.reproduction._learning_curves import LearningCurve, Reached, training_seconds
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell
from pspns.experiments.verdicts import NOT_MEASURED, Outcome, Verdict, judge

MODEL, PLAIN = "lightgcn", "uniform"
BASELINES = (PLAIN, "dns", "mixgcf", "ahns", "dns-m-n")
PROTOCOLS = ("published", "strict")
CLAIM = published.claims()["better-sooner"]
SHARE = 0.99
"""Of the best: the last percent may take longer than all before."""

NOTE = (
    "Recall@20 on validation in percent, means over seeds; ± is their standard deviation. *99 %*: of each seed's own "
    "best. *{plain}'s best*: the mean over its seeds; where not all seeds come to it, the mean is over those that do, "
    "and their number stands beside. Seconds are those of all seeds of a method in one loop, with no other method in "
    "it. Looks at validation are included, and so is what comes before training: construction of pairs, with a second "
    "SVD that only the record needs, and masks. Compiling is not: up to the first look training counts as long as up "
    "to the second. *unsteadiness*: the mean change from one look to the next after 99 % was reached, in percent of "
    "the best. Under `published` PSP-NS's constructed pairs are left out of the ranking unless they are held out, at "
    "validation as at the test. *limit*: a seed reached the limit of steps before its patience was spent."
)


@dataclass(frozen=True)
class Line:
    """A method under a protocol."""

    method: str
    protocol: str = "strict"

    @property
    def label(self) -> str:
        return method_words(self.method) + (f", {self.protocol}" if builds_pairs(self.method) else "")

    def cell(self, data: str) -> Cell:
        return Cell(data, MODEL, self.method, self.protocol, alone=True)


LINES = (*map(Line, BASELINES), *(Line(PSP_NS, protocol) for protocol in PROTOCOLS), Line("recommended"))


def cells(data: str) -> Iterable[Cell]:
    return (line.cell(data) for line in LINES)


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    curves = {data: learning_curves(asked, data) for data in data_names}
    verdicts = [
        (data, protocol, verdict)
        for data in data_names
        for protocol in PROTOCOLS
        if (verdict := better_sooner(asked, [data], protocol)).word != NOT_MEASURED
    ]
    return Section(
        name="convergence",
        title="Learning over time",
        words=(
            f"The paper's {CLAIM.number} is a picture without figures, of data sets that are not named: PSP-NS is said "
            "to be higher after less time than the baselines, and steadier. *Higher and sooner* is measured here as: "
            f"its best is above the baseline's, and it comes to {100 * SHARE:g} % of the latter in fewer seconds than "
            "the baseline does. *Steadier*: it changes less from look to look once it has come to that share of its "
            "own best.",
            *(
                f"{known_data(data).title}, `{protocol}`: that PSP-NS is higher, sooner and steadier {verdict}."
                for data, protocol, verdict in verdicts
            ),
        ),
        tables=tuple(_table(asked, data, of_data) for data, of_data in curves.items()),
        plots=tuple(
            _plot(data, of_data, by) for data, of_data in curves.items() if of_data for by in ("steps", "seconds")
        ),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def learning_curves(records: Records, data: str) -> dict[Line, LearningCurve]:
    """Of those that have a record."""
    found = {line: records.see(line.cell(data)) for line in LINES}
    return {line: LearningCurve.of(seen.record, seen.name) for line, seen in found.items() if seen}


def better_sooner(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Whether PSP-NS is higher, sooner and steadier than each baseline."""
    outcomes: list[Outcome] = []
    for data in data_names:
        curves = learning_curves(records, data)
        ours = curves.get(Line(PSP_NS, protocol))
        for baseline in BASELINES:
            other, title = curves.get(Line(baseline)), f"{known_data(data).title}, {method_words(baseline)}"
            if ours is None or other is None:
                outcomes += [Outcome(f"{title}, higher and sooner", None), Outcome(f"{title}, steadier", None)]
            else:
                outcomes += [_higher_and_sooner(ours, other, title), _steadier(ours, other, title)]
    return judge(outcomes)


def _higher_and_sooner(ours: LearningCurve, other: LearningCurve, title: str) -> Outcome:
    target = SHARE * other.best
    one, two = ours.reached(target), other.reached(target)
    is_sooner = one is not None and two is not None and one.n_seeds == len(ours.looks) and one.seconds < two.seconds
    times = f"{_after(one, ours)} against {_after(two, other)}"
    figures = f"best {ours.best:.2f} against {other.best:.2f}, {100 * SHARE:g} % of the latter after {times}"
    records = ours.record, other.record
    return Outcome(f"{title}, higher and sooner", ours.best > other.best and is_sooner, figures, records=records)


def _after(found: Reached | None, curve: LearningCurve) -> str:
    if found is None:
        return "never"
    return f"{found.seconds:,.1f} s" + (f" ({note})" if (note := _how_many(found, curve)) else "")


def _how_many(found: Reached, curve: LearningCurve) -> str:
    """Said where not all seeds came to it."""
    n_seeds = len(curve.looks)
    return f"{found.n_seeds} of {n_seeds} seeds" if found.n_seeds < n_seeds else ""


def _steadier(ours: LearningCurve, other: LearningCurve, title: str) -> Outcome:
    one, two = (curve.unsteadiness(SHARE) for curve in (ours, other))
    if one is None or two is None:
        return Outcome(f"{title}, steadier", None)
    figures = f"changes of {one:.2f} % against {two:.2f} %"
    return Outcome(f"{title}, steadier", one < two, figures, records=(ours.record, other.record))


def _table(records: Records, data: str, curves: Mapping[Line, LearningCurve]) -> Table:
    plain = curves.get(Line(PLAIN))
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for line in LINES:
        seen, curve = records.see(line.cell(data)), curves.get(line)
        if seen is None or curve is None:
            rows.append(((line.label,), (None,) * 8))
            continue
        unsteadiness = curve.unsteadiness(SHARE)
        spread = statistics.stdev(curve.bests) if len(curve.bests) > 1 else None
        rows.append(((line.label,), (
            Number(curve.best, spread=spread, note=seen.limit, record=seen.name),
            *_when(curve.own_share(SHARE), curve),
            *(_when(curve.reached(plain.best), curve) if plain else (None, None)),
            Number(_seconds_of_steps(seen.record), digits=2, record=seen.name),
            Number(seen.record["seconds"]["positives"], digits=2, record=seen.name),
            Number(unsteadiness, unit=" %", record=seen.name) if unsteadiness is not None else None,
        )))  # fmt: skip
    name = method_words(PLAIN)
    return Table(
        name=f"convergence-{data}",
        caption=captioned(data, "how soon validation Recall@20 is reached"),
        heads=("method",),
        columns=(
            "best", "steps to 99 %", "seconds to 99 %", f"steps to {name}'s best", f"seconds to {name}'s best",
            "seconds of 1,000 steps", "seconds before training", "unsteadiness",
        ),
        rows=tuple(rows),
        note=NOTE.format(plain=name),
    )  # fmt: skip


def _when(found: Reached | None, curve: LearningCurve) -> tuple[TableCell, TableCell]:
    """Steps and seconds."""
    if found is None:
        return "never", "never"
    note = _how_many(found, curve)
    return (
        Number(found.steps, digits=0, note=note, record=curve.record),
        Number(found.seconds, digits=1, note=note, record=curve.record),
    )


def _seconds_of_steps(record: Record) -> float:
    """Of 1,000 steps."""
    step, seconds = list(training_seconds(record).items())[-1]
    return 1000 * seconds / step


def _plot(data: str, curves: Mapping[Line, LearningCurve], by: str) -> Plot:
    plain = curves.get(Line(PLAIN))
    return Plot(
        name=f"convergence-{data}-{by}",
        caption=captioned(
            data, f"validation Recall@20 by {by}, as long as all seeds train; bands from the lowest to the highest seed"
        ),
        x=by,
        y="Recall@20, %",
        series=tuple(_series(line.label, curve, by) for line, curve in curves.items()),
        logarithmic=True,
        levels=((f"best of {method_words(PLAIN)}", plain.best),) if plain else (),
    )


def _series(label: str, curve: LearningCurve, by: str) -> Series:
    looks = curve.while_all_train()
    values = [[look.value for look in seeds] for seeds in looks]
    return Series(
        label=label,
        xs=tuple(float(seeds[0].step if by == "steps" else seeds[0].seconds) for seeds in looks),
        ys=tuple(map(statistics.mean, values)),
        lows=tuple(map(min, values)),
        highs=tuple(map(max, values)),
    )


EXPERIMENT = Experiment(
    title="Learning over time",
    shows="Figure 2(a)–(b): validation Recall@20 by steps and by seconds, each method trained alone",
    section=section,
    cells=cells,
)
