"""Tables in which ours stands beside the paper's: what was printed, ours under `published`, ours under `strict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pspns.evaluation.significance import holm
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import builds_pairs, method_words, trained_as
from pspns.experiments.records import Difference, Records, Seen, difference, relative, why_not_compared
from pspns.experiments.sections import Number, Table, TableCell

METRICS = ("recall@20", "precision@20", "recall@30", "precision@30")
BASELINES = ("popular", "svd", "ease")
WHY_NOT_NOTE = (
    "*lower limit*: not compared, as a lower limit of steps stopped one of the two. *no users*: not compared, as the "
    "record does not tell users apart."
)
FAR = 10.0
"""Percent beyond which ours and the printed figure are called apart."""

BESIDE_NOTE = (
    "In percent; ± is the standard deviation over seeds. Every method stands here at its defaults, but for how long it "
    "could train, which its record tells; svd and ease have settings that validation chose under the same mask. PSP-NS "
    "as trials chose it on the paper's grids stands in the table of settings chosen on validation, where there is one, "
    "and in *Figure by figure* of data that are the paper's own. *difference*: ours under `published` against the "
    "printed figure, marked beyond {far:g} % if the data are the paper's own. *against {reference}*: Recall@20 under "
    "`strict`, in points, with a 95 % bootstrap interval over users; p is that of a sign-flip test over users, "
    "Holm-corrected within the table. *limit*: a seed reached the limit of steps before its patience was spent. "
    "{why_not} Under `published` popular, svd and ease are ranked with PSP-NS's pairs left out, as PSP-NS is; methods "
    "that build no pairs have only train left out, and are trained as under `strict`."
)


def under_both(data: str, model: str, methods: Sequence[str]) -> Iterator[Cell]:
    """What must be trained to show the methods under `published` and under `strict`."""
    for method in methods:
        cell = Cell(data, model, trained_as(method))
        yield cell
        if builds_pairs(method):
            yield cell.but(protocol="published")


def beside_paper(
    records: Records,
    name: str,
    data: str,
    model: str,
    methods: Sequence[str],
    *,
    reference: str = "uniform",
    table: str,
) -> Table:
    """Recall@20 of the methods: the paper's, ours under both protocols, and whether strict differences are luck."""
    seen = {method: both(records, Cell(data, model, trained_as(method))) for method in methods}
    plain, masked = seen[reference][1], seen.get("psp-ns", (None, None))[0]
    strict = {method: found for method, (_, found) in seen.items() if found}
    strict |= {name: found for name in BASELINES if plain and (found := plain.of_baseline(name))}
    tested = differences(strict, reference)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for method, (under_published, under_strict) in seen.items():
        printed = in_print(table, data, model, method, "recall@20")
        rows.append(((method_words(method),), (
            printed,
            under_published.number("recall@20") if under_published else None,
            apart(data, under_published, "recall@20", printed.value if printed else None),
            under_strict.number("recall@20") if under_strict else None,
            *against(tested.get(method), why_not_compared(under_strict, plain)),
        )))  # fmt: skip
    for baseline in BASELINES:
        of_published = masked.of_baseline(baseline) if masked else None
        rows.append(((baseline,), (
            None,
            of_published.number("recall@20") if of_published else None,
            None,
            strict[baseline].number("recall@20") if baseline in strict else None,
            *against(tested.get(baseline)),
        )))  # fmt: skip
    return Table(
        name=name,
        caption=captioned(data, "Recall@20"),
        heads=("method",),
        columns=(
            "paper", "ours, published", "difference", "ours, strict", f"against {method_words(reference)}, strict", "p",
        ),
        rows=tuple(rows),
        note=BESIDE_NOTE.format(reference=method_words(reference), far=FAR, why_not=WHY_NOT_NOTE),
    )  # fmt: skip


def other_metrics(records: Records, name: str, data: str, model: str, methods: Sequence[str], table: str) -> Table:
    """The metrics beside Recall@20: printed, under `published`, under `strict`."""
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for method in methods:
        cells: list[TableCell] = []
        for metric in METRICS[1:]:
            cells.append(in_print(table, data, model, method, metric))
            for found in both(records, Cell(data, model, trained_as(method))):
                cells.append(replace(found.number(metric), spread=None) if found else None)
        rows.append(((method_words(method),), tuple(cells)))
    return Table(
        name=name,
        caption=captioned(data, "the other metrics"),
        heads=("method",),
        columns=tuple(f"{words(metric)}, {of}" for metric in METRICS[1:] for of in ("paper", "published", "strict")),
        rows=tuple(rows),
        note=(
            "In percent, means over seeds; every method at its defaults. *limit*: a seed reached the limit of steps "
            "before its patience was spent."
        ),
    )


def numbered(table: str) -> str:
    """A table of the paper by its number, and as its text calls it where that is another one.

    >>> numbered("mf"), numbered("overall")
    ('Table 5 (in the text: 6)', 'Table 2 (in the text: 2, 1)')
    """
    found = published.tables()[table]
    called = f" (in the text: {', '.join(map(str, found.called))})" if found.called != (found.number,) else ""
    return f"Table {found.number}{called}"


def captioned(data: str, what: str) -> str:
    """What a table or plot shows of a data set; one that is not the paper's says so.

    >>> captioned("epinions-by-user", "Recall@20")
    'Epinions, split by user, Recall@20 (split 7 : 1 : 2 within each user)'
    """
    known = known_data(data)
    return f"{known.title}, {what}{f' ({known.note})' if known.note else ''}"


def in_print(table: str, data: str, model: str, method: str, metric: str, *, users: str = "all") -> Number | None:
    """The paper's figure for the data set that ours stands beside, with the note if it cannot be right."""
    printed_as = known_data(data).printed_as
    figure = published.printed(table, printed_as, model, method, metric, users=users)
    if figure is None:
        return None
    noted = {(note.data, note.method, note.metric): note.note for note in published.tables()[table].notes}
    return Number(figure, note=noted.get((printed_as, method, metric), ""))


def both(records: Records, cell: Cell) -> tuple[Seen | None, Seen | None]:
    """Under `published`, and under `strict`."""
    return records.see(cell.but(protocol="published")), records.see(cell.but(protocol="strict"))


def apart(data: str, ours: Seen | None, metric: str, printed: float | None) -> Number | None:
    """How far ours is from what was printed, in percent of that."""
    if ours is None or printed is None:
        return None
    return distance(data, 100 * ours.mean(metric), printed, ours.name)


def distance(data: str, ours: float, printed: float, record: str) -> Number:
    """Both in percent. Of data that are not the paper's own, nobody can say how far is too far."""
    percent = relative(ours, printed)
    is_far = abs(percent) > FAR and not known_data(data).note
    return Number(percent, digits=1, sign=True, unit=" %", record=record, tone="worse" if is_far else "")


def differences(seen: dict[str, Seen], reference: str) -> dict[str, Difference]:
    """Of each method against the reference; p-values are corrected for being several."""
    found = {
        method: tested
        for method, one in seen.items()
        if method != reference and reference in seen and (tested := difference(one, seen[reference]))
    }
    return corrected(found)


def corrected(tested: dict[str, Difference]) -> dict[str, Difference]:
    """Their p-values as those of several tests made at once (Holm)."""
    p_values = holm([one.p_value for one in tested.values()]).tolist()
    return {name: replace(one, p_value=p) for (name, one), p in zip(tested.items(), p_values, strict=True)}


def against(tested: Difference | None, why_not: str = "") -> tuple[TableCell, str | None]:
    """The difference in points with its interval, and p; where there is none, why, in short."""
    if tested is None:
        return why_not or None, None
    is_clear = tested.p_value < 0.05
    points = Number(
        100 * tested.mean,
        sign=True,
        low=100 * tested.low,
        high=100 * tested.high,
        record=tested.record,
        tone=("better" if tested.mean > 0 else "worse") if is_clear else "",
    )
    return points, "< 0.001" if tested.p_value < 0.001 else f"{tested.p_value:.3f}"


def from_to(counts: Sequence[int]) -> str:
    """The least and the most of some counts.

    >>> from_to([40, 1080, 40]), from_to([7, 7])
    ('40 to 1,080', '7')
    """
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def words(metric: str) -> str:
    """As readers know it.

    >>> words("recall@20")
    'Recall@20'
    """
    return metric.capitalize()
