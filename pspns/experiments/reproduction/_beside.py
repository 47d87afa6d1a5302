"""Tables in which ours stands beside the paper's: what was printed, ours under `published`, ours under `strict`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pspns.evaluation.significance import holm
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.records import Difference, Records, Seen, difference, relative
from pspns.experiments.sections import Number, Table, TableCell

METRICS = ("recall@20", "precision@20", "recall@30", "precision@30")
BASELINES = ("popular", "svd", "ease")
FAR = 10.0
"""Percent beyond which ours and the printed figure are called apart."""

BESIDE_NOTE = (
    "In percent; ± is the standard deviation over seeds. *difference*: ours under `published` against the printed "
    "figure. *against {reference}*: Recall@20 under `strict`, in points, with a 95 % bootstrap interval over users; p "
    "is that of a sign-flip test over users, Holm-corrected within the table. *limit*: a seed reached the limit of "
    "steps before its patience was spent."
)


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
    known = known_data(data)
    seen = {method: both(records, Cell(data, model, method)) for method in methods}
    plain, masked = seen[reference][1], seen.get("psp-ns", (None, None))[0]
    strict = {method: found for method, (_, found) in seen.items() if found}
    strict |= {name: found for name in BASELINES if plain and (found := plain.of_baseline(name))}
    tested = differences(strict, reference)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for method, (under_published, under_strict) in seen.items():
        printed = published.printed(table, known.printed_as, model, method, "recall@20")
        rows.append(((method_words(method),), (
            Number(printed) if printed is not None else None,
            under_published.number("recall@20") if under_published else None,
            apart(under_published, "recall@20", printed),
            under_strict.number("recall@20") if under_strict else None,
            *against(tested.get(method)),
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
        caption=f"{known.title}, Recall@20{f' ({known.note})' if known.note else ''}",
        heads=("method",),
        columns=(
            "paper", "ours, published", "difference", "ours, strict", f"against {method_words(reference)}, strict", "p",
        ),
        rows=tuple(rows),
        note=BESIDE_NOTE.format(reference=method_words(reference)),
    )  # fmt: skip


def other_metrics(records: Records, name: str, data: str, model: str, methods: Sequence[str], table: str) -> Table:
    """The metrics beside Recall@20: printed, under `published`, under `strict`."""
    known = known_data(data)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for method in methods:
        cells: list[TableCell] = []
        for metric in METRICS[1:]:
            printed = published.printed(table, known.printed_as, model, method, metric)
            cells.append(Number(printed) if printed is not None else None)
            for found in both(records, Cell(data, model, method)):
                cells.append(replace(found.number(metric), spread=None, note="") if found else None)
        rows.append(((method_words(method),), tuple(cells)))
    return Table(
        name=name,
        caption=f"{known.title}, the other metrics{f' ({known.note})' if known.note else ''}",
        heads=("method",),
        columns=tuple(f"{words(metric)}, {of}" for metric in METRICS[1:] for of in ("paper", "published", "strict")),
        rows=tuple(rows),
        note="In percent, means over seeds.",
    )


def both(records: Records, cell: Cell) -> tuple[Seen | None, Seen | None]:
    """Under `published`, and under `strict`."""
    return records.see(cell.but(protocol="published")), records.see(cell.but(protocol="strict"))


def apart(ours: Seen | None, metric: str, printed: float | None) -> Number | None:
    """How far ours is from what was printed, in percent of that."""
    if ours is None or printed is None:
        return None
    percent = relative(100 * ours.mean(metric), printed)
    return Number(percent, digits=1, sign=True, unit=" %", record=ours.name, tone="worse" if abs(percent) > FAR else "")


def differences(seen: dict[str, Seen], reference: str) -> dict[str, Difference]:
    """Of each method against the reference; p-values are corrected for being several."""
    found = {
        method: tested
        for method, one in seen.items()
        if method != reference and reference in seen and (tested := difference(one, seen[reference]))
    }
    corrected = holm([tested.p_value for tested in found.values()]).tolist()
    return {method: replace(tested, p_value=p) for (method, tested), p in zip(found.items(), corrected, strict=True)}


def against(tested: Difference | None) -> tuple[Number | None, str | None]:
    """The difference in points with its interval, and p."""
    if tested is None:
        return None, None
    is_clear = tested.p_value < 0.05
    points = Number(
        100 * tested.mean,
        sign=True,
        low=100 * tested.low,
        high=100 * tested.high,
        tone=("better" if tested.mean > 0 else "worse") if is_clear else "",
    )
    return points, "< 0.001" if tested.p_value < 0.001 else f"{tested.p_value:.3f}"


def words(metric: str) -> str:
    """As readers know it.

    >>> words("recall@20")
    'Recall@20'
    """
    return metric.capitalize()
