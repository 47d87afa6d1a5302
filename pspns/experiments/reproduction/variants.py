"""The paper's ablations: which pairs, how often, with which user weights; also at equal steps, and copies against
weights where both have as many negatives."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_words, trained_as
from pspns.experiments.records import Difference, Records, Seen, difference
from pspns.experiments.reproduction._beside import (
    against,
    beside_paper,
    both,
    captioned,
    corrected,
    differences,
    numbered,
    other_metrics,
    under_both,
)
from pspns.experiments.reproduction._equal_steps import FIXED, Changes, steps_words
from pspns.experiments.sections import Number, Section, Table, TableCell

MODEL, TABLE, REFERENCE = "lightgcn", "variants", "observed"
METHODS = published.tables()[TABLE].methods
PROTOCOLS = ("published", "strict")
BY_USER = ("ml-1m-by-user", "epinions-by-user")
"""Another split of the same data: does the order of the rows depend on it?"""

WEIGHTS, COPIES = "merged-weighted", "psp"
TOGETHER: Changes = (("training.copies_together", True),)
IN_ONE_STEP = f"{method_words(COPIES)}, copies in one step"
ROWS: dict[str, tuple[str, Changes]] = {
    method_words(WEIGHTS): (WEIGHTS, ()),
    IN_ONE_STEP: (COPIES, TOGETHER),
    method_words(COPIES): (COPIES, ()),
}
"""Of an agreed pair one visit with one negative and the loss times s; s negatives in one step; s visits."""
QUESTIONS = (
    ("copies instead of weights", method_words(COPIES), method_words(WEIGHTS)),
    ("of which: as many negatives", IN_ONE_STEP, method_words(WEIGHTS)),
    ("of which: at other times", method_words(COPIES), IN_ONE_STEP),
)
EQUAL_NOTE = (
    "Recall@20 in percent after the same number of steps, whatever validation says; ± is the standard deviation over "
    "seeds. *epochs*: how often these steps visit all pairs and copies, under `strict`. *against {reference}*: under "
    "`strict`, in points, with a 95 % bootstrap interval over users; p is that of a sign-flip test over users, "
    "Holm-corrected within the table."
)
COPIES_NOTE = (
    "Recall@20 in percent, differences in points with a 95 % bootstrap interval over users; p is that of a sign-flip "
    "test over users, Holm-corrected within the table. Agreed pairs come once an epoch with one negative and the loss "
    "times s ({weights}); as s rows of one step, each with its own negative ({in_one_step}); or as s rows at random "
    "times ({copies}). The latter two differ in nothing else. {weights} also has more different pairs in a step, since "
    "each is one row of the batch, and L2 counts their vectors once."
)


def cells(data: str) -> Iterable[Cell]:
    as_they_are = list(under_both(data, MODEL, METHODS))
    yield from as_they_are
    if data in BY_USER:
        return
    yield from (cell.but(changes=FIXED) for cell in as_they_are)
    for protocol, training in itertools.product(PROTOCOLS, ((), FIXED)):
        yield Cell(data, MODEL, COPIES, protocol, (*training, *TOGETHER))


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    tables: list[Table] = []
    said: list[str] = []
    for data in data_names:
        tables += [
            beside_paper(asked, f"{TABLE}-{data}", data, MODEL, METHODS, reference=REFERENCE, table=TABLE),
            other_metrics(asked, f"{TABLE}-{data}-other-metrics", data, MODEL, METHODS, TABLE),
        ]
        if data not in BY_USER:
            comparison = CopiesAgainstWeights(asked, data)
            tables += [_equal_steps(asked, data), comparison.table()]
            said += comparison.words()
    return Section(
        name="variants",
        title="Variants of the pairs and of the user weights",
        words=(
            f"The paper's {numbered(TABLE)}: from observed pairs alone ({method_words(REFERENCE)}) to "
            f"{method_words('psp-ns')}, part by part. {published.tables()[TABLE].note} Copies lengthen an epoch, so "
            "the rows stand at equal steps, too.",
            "The paper says that copies teach more than weights because they meet different negatives. Weights and "
            "copies differ in two things, though: in the number of negatives, and in coming at one time or at several. "
            f"{IN_ONE_STEP}, lies between the two.",
            *said,
        ),
        tables=tuple(tables),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def _equal_steps(records: Records, data: str) -> Table:
    seen = {method: both(records, Cell(data, MODEL, trained_as(method), changes=FIXED)) for method in METHODS}
    tested = differences({method: strict for method, (_, strict) in seen.items() if strict}, REFERENCE)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = [
        ((method_words(method),), (
            _epochs(strict),
            of_published.number("recall@20") if of_published else None,
            strict.number("recall@20") if strict else None,
            *against(tested.get(method)),
        ))
        for method, (of_published, strict) in seen.items()
    ]  # fmt: skip
    reference = method_words(REFERENCE)
    return Table(
        name=f"{TABLE}-{data}-equal-steps",
        caption=captioned(data, f"Recall@20 after {steps_words(seen[REFERENCE][1])}"),
        heads=("method",),
        columns=("epochs", "ours, published", "ours, strict", f"against {reference}, strict", "p"),
        rows=tuple(rows),
        note=EQUAL_NOTE.format(reference=reference),
    )


def _epochs(seen: Seen | None) -> Number | None:
    if seen is None:
        return None
    training, visits = seen.record["settings"]["training"], seen.record["positives"]["visits_an_epoch"]
    return Number(training["steps"] / -(-visits // training["batch_size"]), digits=1, record=seen.name)


class CopiesAgainstWeights:
    """The three ways to let an agreed pair count s times, stopped early and at equal steps, under both protocols."""

    def __init__(self, records: Records, data: str):
        self._data = data
        self._seen: dict[tuple[str, str, Changes], Seen] = {}
        for (row, (method, own)), protocol, training in itertools.product(ROWS.items(), PROTOCOLS, ((), FIXED)):
            if found := records.see(Cell(data, MODEL, method, protocol, (*training, *own))):
                self._seen[row, protocol, training] = found
        tested: dict[str, Difference] = {}
        for (what, one, other), protocol, training in itertools.product(QUESTIONS, PROTOCOLS, ((), FIXED)):
            first, second = (self._seen.get((row, protocol, training)) for row in (one, other))
            if first and second and (found_difference := difference(first, second)):
                tested[_key(what, protocol, training)] = found_difference
        self._tested = corrected(tested)

    def table(self) -> Table:
        rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
        for training, title in (((), "stopped early"), (FIXED, self._equal)):
            for row in ROWS:
                numbers = [self._seen.get((row, protocol, training)) for protocol in PROTOCOLS]
                rows.append(((title, row), tuple(
                    cell for one in numbers for cell in (one.number("recall@20") if one else None, None)
                )))  # fmt: skip
            for what, *_ in QUESTIONS:
                found = [self._tested.get(_key(what, protocol, training)) for protocol in PROTOCOLS]
                rows.append(((title, what), tuple(cell for one in found for cell in against(one))))
        named = {"weights": method_words(WEIGHTS), "copies": method_words(COPIES), "in_one_step": IN_ONE_STEP}
        return Table(
            name=f"{TABLE}-{self._data}-copies-against-weights",
            caption=captioned(self._data, "copies against weights"),
            heads=("training", "what"),
            columns=tuple(column for protocol in PROTOCOLS for column in (f"ours, {protocol}", f"p, {protocol}")),
            rows=tuple(rows),
            note=COPIES_NOTE.format(**named),
        )

    def words(self) -> Iterable[str]:
        """What the differences at equal steps are, and which of them may be luck."""
        for protocol in PROTOCOLS:
            found = [(what, self._tested.get(_key(what, protocol, FIXED))) for what, *_ in QUESTIONS]
            parts = [f"{what} {_points(one)}" for what, one in found if one]
            if len(parts) == len(QUESTIONS):
                title = known_data(self._data).title
                yield f"{title}, `{protocol}`, {self._equal}, Recall@20: {'; '.join(parts)}."

    @property
    def _equal(self) -> str:
        return steps_words(next((one for (_, _, training), one in self._seen.items() if training), None))


def _key(what: str, protocol: str, training: Changes) -> str:
    return f"{what}, {protocol}, {training}"


def _points(tested: Difference) -> str:
    number, p = against(tested)
    return f"{number} points, p {p if p and p[0] == '<' else f'= {p}'}"


EXPERIMENT = Experiment(
    title="Variants of the pairs and of the user weights",
    shows="Table 3: nine ablations and PSP-NS, also at equal steps; copies against weights with as many negatives",
    section=section,
    cells=cells,
    data=("ml-1m", "epinions", *BY_USER),
)
