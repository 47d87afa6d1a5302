"""PSP-NS's settings, one at a time over the paper's grids; proposals by degree or by a fixed number; which SVD."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pspns.components import find_part
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import PSP_NS, method_tables, method_words
from pspns.experiments.records import Record, Records, Seen, relative
from pspns.experiments.reproduction._beside import against, captioned, differences, words
from pspns.experiments.reproduction._comparisons import Pair, decide
from pspns.experiments.reproduction._curves import Curve, chosen_on_validation
from pspns.experiments.reproduction._equal_steps import FIXED, Changes, steps_words
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell
from pspns.experiments.verdicts import NOT_MEASURED, Outcome, Verdict, judge
from pspns.settings import PART_SECTIONS
from pspns.spectral import EXACT_UP_TO

MODEL = "lightgcn"
PROTOCOLS = ("published", "strict")
METRICS = ("recall@20", "precision@20")
UNWEIGHTED = "psp"
RANKS_OF = "ml-1m"
"""The paper's data set whose ranks are tried on data that it does not have."""


@dataclass(frozen=True)
class Parameter:
    """A setting that the paper varies, and what it claims of it."""

    name: str
    letter: str
    """The paper's."""
    section: str
    claim: str
    logarithmic: bool = False

    @property
    def default(self) -> float:
        part = find_part(PART_SECTIONS[self.section], method_tables(PSP_NS)[self.section]["name"])
        value: float = getattr(part(), self.name)
        return value

    def values(self, data: str) -> tuple[float, ...]:
        """The paper's grid and the default."""
        sets = published.data_sets()
        of_data = sets.get(known_data(data).printed_as, sets[RANKS_OF])
        return tuple(sorted({*(of_data.ranks if self.name == "rank" else published.grids()[self.name]), self.default}))

    def changes(self, value: float) -> Changes:
        """None at the default, so that all three parameters share that training."""
        return () if value == self.default else ((f"{self.section}.{self.name}", value),)


PARAMETERS = {
    claim: Parameter(name, letter, section, claim, logarithmic)
    for name, letter, section, claim, logarithmic in (
        ("rank", "q", "positives", "rank-has-a-best-value", False),
        ("sensitivity", "a", "weighting", "sensitivity-has-a-best-value", True),
        ("copies", "s", "positives", "copies-have-a-best-value", False),
    )
}
"""By the name of the claim."""

BY_DEGREE, RANDOMIZED = "as many as the user has", "randomized"
NEIGHBOURS: Mapping[str, Changes] = {
    BY_DEGREE: (),
    **{
        f"{count} to everybody": (("positives.neighbours", "fixed"), ("positives.neighbour_count", count))
        for count in (10, 20, 50, 100)
    },
}
SVDS: Mapping[str, Changes] = {RANDOMIZED: (), "exact": (("positives.exact", True),)}

GRID_NOTE = (
    "In percent, on the test; ± is the standard deviation over seeds. *chosen*: has the best mean of that metric on "
    "validation, under the mask of that protocol."
)
OTHERS_NOTE = (
    "Recall@20 in percent; ± is the standard deviation over seeds. *against*: under `strict`, in points, with a 95 % "
    "bootstrap interval over users; p is that of a sign-flip test over users, Holm-corrected within the table."
)


def cells(data: str) -> Iterable[Cell]:
    grids = (one.changes(value) for one in PARAMETERS.values() for value in one.values(data))
    for changes in dict.fromkeys((*grids, *NEIGHBOURS.values(), *SVDS.values())):
        yield from (_cell(data, protocol, changes) for protocol in reversed(PROTOCOLS))


def _cell(data: str, protocol: str, changes: Changes) -> Cell:
    return Cell(data, MODEL, PSP_NS, protocol, (*FIXED, *changes))


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    tables: list[Table] = []
    plots: list[Plot] = []
    said: list[str] = []
    for data in data_names:
        for parameter in PARAMETERS.values():
            grid = Grid(asked, data, parameter)
            tables.append(grid.table())
            plots += grid.plots()
            said += grid.words()
        tables += [_neighbours(asked, data), _svds(asked, data)]
        said += _neighbour_words(asked, data)
    return Section(
        name="parameters",
        title="Settings of PSP-NS",
        words=(
            "The paper's Figure 3 varies the rank q of the SVD, the sensitivity a of the user weights and the copies "
            f"s of agreed pairs, and says that {' and '.join(map(words, METRICS))} rise and then fall with each. The "
            "figures themselves are not in it, nor is what the other two settings were. Here each is varied over the "
            f"paper's grid with the others at their defaults ({_defaults()}), for as many steps with every value.",
            "Validation chooses a value, and the test compares it with both ends of the grid: a value that is best on "
            "the test itself would be so by luck, too. A curve is called best inside the grid if the chosen value is "
            "above both ends; in between it may go up and down, so this is less than to rise and then fall. Where an "
            "end may be as good, p is that of a sign-flip test over test users, Holm-corrected for the two ends.",
            *said,
        ),
        tables=tuple(tables),
        plots=tuple(plots),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def _defaults() -> str:
    return ", ".join(f"{one.letter} = {one.default:g}" for one in PARAMETERS.values())


class Grid:
    """One parameter on one data set under both protocols."""

    def __init__(self, records: Records, data: str, parameter: Parameter):
        self._data, self._parameter = data, parameter
        self._seen = {protocol: seen_by_value(records, data, parameter, protocol) for protocol in PROTOCOLS}

    def table(self) -> Table:
        columns = [(metric, protocol) for protocol in PROTOCOLS for metric in METRICS]
        rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
        for value in self._parameter.values(self._data):
            default = " (default)" if value == self._parameter.default else ""
            rows.append(((f"{value:g}{default}",), tuple(self._number(value, metric, of) for metric, of in columns)))
        return Table(
            name=f"parameters-{self._data}-{self._parameter.name}",
            caption=captioned(self._data, f"{self._title} after {self._steps}"),
            heads=(self._parameter.letter,),
            columns=tuple(f"{words(metric)}, {protocol}" for metric, protocol in columns),
            rows=tuple(rows),
            note=GRID_NOTE,
        )

    def plots(self) -> Iterable[Plot]:
        """In percent of the default's, because the protocols' figures are far apart."""
        series = []
        for protocol in PROTOCOLS:
            found = {value: one for value, one in self._seen[protocol].items() if one}
            default = found.get(self._parameter.default)
            if default is None or not default.mean("recall@20") or len(found) < 2:
                continue
            by_seed = [
                sorted(relative(recall, default.mean("recall@20")) for recall in one.per_seed("recall@20"))
                for one in found.values()
            ]
            means = [relative(one.mean("recall@20"), default.mean("recall@20")) for one in found.values()]
            lows, highs = (tuple(seeds[place] for seeds in by_seed) for place in (0, -1))
            series.append(Series(protocol, tuple(found), tuple(means), lows, highs))
        if series:
            yield Plot(
                name=f"parameters-{self._data}-{self._parameter.name}",
                caption=captioned(self._data, f"Recall@20 by {self._title}; bands from the lowest to the highest seed"),
                x=self._title,
                y="% above the default's mean",
                series=tuple(series),
                logarithmic=self._parameter.logarithmic,
                levels=((f"default, {self._parameter.default:g}", 0.0),),
            )

    def words(self) -> Iterable[str]:
        """Where it is best, and whether that is inside the grid."""
        for protocol in PROTOCOLS:
            curve = Curve.of(self._seen[protocol], "recall@20")
            if curve:
                what = f"{known_data(self._data).title}, {self._title}, `{protocol}`"
                luck = f" ({curve.luck})" if curve.luck else ""
                yield f"{what}: Recall@20 {curve.shape}: {curve}{luck}."

    def _number(self, value: float, metric: str, protocol: str) -> Number | None:
        one = self._seen[protocol][value]
        if one is None:
            return None
        chosen = chosen_on_validation(self._seen[protocol], metric)
        return replace(one.number(metric), note="chosen" if value == chosen else "")

    @property
    def _title(self) -> str:
        return f"{self._parameter.name} {self._parameter.letter}"

    @property
    def _steps(self) -> str:
        return steps_words(next((one for of in self._seen.values() for one in of.values() if one), None))


def seen_by_value(records: Records, data: str, parameter: Parameter, protocol: str) -> dict[float, Seen | None]:
    return {value: records.see(_cell(data, protocol, parameter.changes(value))) for value in parameter.values(data)}


def has_a_best_value(claim: str) -> Callable[[Records, Sequence[str], str], Verdict]:
    """Whether Recall@20 and Precision@20 are best inside the parameter's grid: records, data sets, protocol →
    verdict."""

    def check(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
        outcomes = []
        for data in data_names:
            seen = seen_by_value(records, data, PARAMETERS[claim], protocol)
            for metric in METRICS:
                curve = Curve.of(seen, metric)
                steps = steps_words(next((one for one in seen.values() if one), None))
                what = f"{known_data(data).title}, {words(metric)} after {steps}"
                if curve is None:
                    outcomes.append(Outcome(what, None))
                    continue
                names = tuple(one.name for one in seen.values() if one)
                outcomes.append(Outcome(what, curve.is_best_inside, str(curve), curve.luck, records=names))
        return judge(outcomes, of="curves")

    return check


def degree_does_best(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Whether proposing as many items as a user has does better than every fixed number."""
    pairs = []
    for data in data_names:
        seen = {label: records.see(_cell(data, protocol, changes)) for label, changes in NEIGHBOURS.items()}
        by_degree = seen.pop(BY_DEGREE)
        for label, one in seen.items():
            what = f"{known_data(data).title}, Recall@20 after {steps_words(one)}, {BY_DEGREE} against {label}"
            pairs.append(Pair(what, by_degree, one))
    return judge(decide(pairs), everywhere=True)


def weights_help_as_validation_chose_them(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Whether user weights do better than none, at the sensitivity that validation chose after as many steps."""
    parameter = PARAMETERS["sensitivity-has-a-best-value"]
    pairs = []
    for data in data_names:
        unweighted = records.see(Cell(data, MODEL, UNWEIGHTED, protocol, FIXED))
        seen = seen_by_value(records, data, parameter, protocol)
        chosen = None if None in seen.values() else chosen_on_validation(seen, "recall@20")
        at = f" at {parameter.letter} = {chosen:g}, which validation chose," if chosen is not None else ""
        for metric in METRICS:
            what = (
                f"{known_data(data).title}, {words(metric)} after {steps_words(unweighted)}, "
                f"{method_words(PSP_NS)}{at} against {method_words(UNWEIGHTED)}"
            )
            pairs.append(Pair(what, seen[chosen] if chosen is not None else None, unweighted, metric))
    return judge(decide(pairs))


def _neighbours(records: Records, data: str) -> Table:
    return _compared(
        records,
        data,
        NEIGHBOURS,
        name="neighbours",
        what="how many items are proposed",
        columns={
            "pairs": lambda record: Number(record["positives"]["pairs"], digits=0),
            "agreed": lambda record: Number(record["positives"]["agreed"], digits=0),
            "injected": lambda record: Number(record["positives"]["injected"], digits=0),
        },
        note=(
            "*pairs*, *agreed* and *injected*: under `strict`. Under `published` every proposal that is not held out "
            "is left out of the ranking, so that many proposals look good whatever the model has learned."
        ),
    )


def _svds(records: Records, data: str) -> Table:
    return _compared(
        records,
        data,
        SVDS,
        name="svd",
        what="randomized against exact SVD",
        columns={
            "shared by two seeds": lambda record: Number(
                100 * record["positives"]["svd"]["seed_agreement"], digits=1, unit=" %"
            )
        },
        note=(
            "*shared by two seeds*: the share of the proposals that another start of the SVD makes, too. Up to "
            f"{EXACT_UP_TO:,} users or items both are exact."
        ),
    )


def _compared(
    records: Records,
    data: str,
    choices: Mapping[str, Changes],
    *,
    name: str,
    what: str,
    columns: Mapping[str, Callable[[Record], Number]],
    note: str,
) -> Table:
    """The choices against the first of them, which is PSP-NS's own."""
    seen = {
        label: tuple(records.see(_cell(data, protocol, changes)) for protocol in PROTOCOLS)
        for label, changes in choices.items()
    }
    (reference, *_) = choices
    tested = differences({label: strict for label, (_, strict) in seen.items() if strict}, reference)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for label, (of_published, strict) in seen.items():
        more = [replace(find(strict.record), record=strict.name) if strict else None for find in columns.values()]
        numbers = [one.number("recall@20") if one else None for one in (of_published, strict)]
        rows.append(((label,), (*more, *numbers, *against(tested.get(label)))))
    return Table(
        name=f"parameters-{data}-{name}",
        caption=captioned(data, f"{what}, Recall@20 of {method_words(PSP_NS)} after {steps_words(seen[reference][1])}"),
        heads=("proposals" if name == "neighbours" else "SVD",),
        columns=(*columns, "ours, published", "ours, strict", f"against {reference}", "p"),
        rows=tuple(rows),
        note=f"{OTHERS_NOTE} {note}",
    )


def _neighbour_words(records: Records, data: str) -> Iterable[str]:
    for protocol in PROTOCOLS:
        verdict = degree_does_best(records, [data], protocol)
        if verdict.word != NOT_MEASURED:
            what = f"{known_data(data).title}, `{protocol}`"
            yield f"{what}: that proposing {BY_DEGREE} does better than a fixed number {verdict}."


EXPERIMENT = Experiment(
    title="Settings of PSP-NS",
    shows="Figure 3: rank, sensitivity and copies over the paper's grids; fixed numbers of proposals; the exact SVD",
    section=section,
    cells=cells,
)
