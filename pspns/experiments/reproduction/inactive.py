"""The least active users and the others, without and with user weights; and all users in tenths by activity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_words
from pspns.experiments.records import Records, Seen
from pspns.experiments.reproduction._beside import captioned, distance, in_print, numbered, under_both, words
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell
from pspns.experiments.user_groups import INACTIVE, N_TENTHS, OTHER, groups, tenths

MODEL, TABLE = "lightgcn", "inactive-users"
PROTOCOLS = ("published", "strict")
PLAIN, WEIGHTED = METHODS = published.tables()[TABLE].methods
BESIDE = ("uniform", "recommended")
"""Shown by tenths under `strict` alone: they build no pairs, and a record has groups under its own mask only."""
METRICS = published.tables()[TABLE].metrics

GROUPS_NOTE = (
    "In percent, means over users and seeds. *difference*: ours under `published` against the printed figure. "
    "*others*: all users of the test who are not among the least active; their mean follows from those over all and "
    "over the least active. *gain*: in points, {weighted} minus {plain}."
)
TENTHS_NOTE = (
    "Recall@20 in percent, mean over the users of the tenth and over seeds; 1 has the least active users. *users*: "
    "those who have something in the test. Methods that build no pairs stand under `strict` alone."
)


def cells(data: str) -> Iterable[Cell]:
    yield from under_both(data, MODEL, METHODS)
    yield from (Cell(data, MODEL, method) for method in BESIDE)


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    seen = {data: _all_seen(asked, data) for data in data_names}
    return Section(
        name="inactive",
        title="Inactive users",
        words=(
            f"The paper's {numbered(TABLE)}: what user weights do for the users with the fewest pairs in train and for "
            f"all others. {method_words(PLAIN)} is {method_words(WEIGHTED)} without weights. "
            f"{published.tables()[TABLE].note} Printed figures that cannot be right say why.",
        ),
        tables=tuple(
            table
            for data, of_data in seen.items()
            for table in (_group_table(data, of_data), _tenth_table(data, of_data))
        ),
        plots=tuple(
            plot for data, of_data in seen.items() for protocol in PROTOCOLS if (plot := _plot(data, of_data, protocol))
        ),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


AllSeen = dict[tuple[str, str], Seen | None]
"""(method, protocol) → the record."""


def _all_seen(records: Records, data: str) -> AllSeen:
    shown = [(method, protocol) for protocol in PROTOCOLS for method in METHODS]
    shown += [(method, "strict") for method in BESIDE]
    return {(method, protocol): records.see(Cell(data, MODEL, method, protocol)) for method, protocol in shown}


def _group_table(data: str, seen: AllSeen) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for users, title in ((INACTIVE, _title(seen)), (OTHER, "others")):
        for method in METHODS:
            cells: list[TableCell] = []
            for metric in METRICS:
                printed = in_print(TABLE, data, MODEL, method, metric, users=users)
                ours, strict = (_figure(seen[method, protocol], users, metric) for protocol in PROTOCOLS)
                apart = distance(data, ours.value, printed.value, ours.record) if ours and printed else None
                cells += [printed, ours, apart, strict]
            rows.append(((title, method_words(method)), tuple(cells)))
        rows.append(((title, "gain"), tuple(_gains(data, seen, users))))
    return Table(
        name=f"inactive-{data}",
        caption=captioned(data, "the least active users and the others"),
        heads=("users", "method"),
        columns=tuple(
            f"{words(metric)}, {of}" for metric in METRICS for of in ("paper", "published", "difference", "strict")
        ),
        rows=tuple(rows),
        note=GROUPS_NOTE.format(weighted=method_words(WEIGHTED), plain=method_words(PLAIN)),
    )


def _title(seen: AllSeen) -> str:
    """How many were judged apart; as many as the paper has where no record tells."""
    found = next((one for one in seen.values() if one), None)
    stated = found.record["settings"] if found else published.settings()
    return f"{stated['evaluation']['inactive']:,} least active"


def _figure(seen: Seen | None, users: str, metric: str) -> Number | None:
    group = groups(seen).get(users) if seen else None
    return Number(100 * group.figures[metric], record=seen.name) if seen and group else None


def _gains(data: str, seen: AllSeen, users: str) -> Iterable[TableCell]:
    """What weights add, for each metric: as printed, under `published`, nothing of the difference, under `strict`."""
    for metric in METRICS:
        printed = [in_print(TABLE, data, MODEL, method, metric, users=users) for method in METHODS]
        of_published, of_strict = (
            [_figure(seen[method, protocol], users, metric) for method in METHODS] for protocol in PROTOCOLS
        )
        yield from (_gain(*printed), _gain(*of_published), None, _gain(*of_strict))


def _gain(plain: Number | None, weighted: Number | None) -> Number | None:
    if plain is None or weighted is None:
        return None
    return Number(weighted.value - plain.value, sign=True, record=weighted.record)


def _tenth_table(data: str, seen: AllSeen) -> Table:
    by_tenth = {key: tenths(one) if one else [] for key, one in seen.items()}
    sizes = next(filter(None, by_tenth.values()), [])
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for place in range(N_TENTHS):
        cells: list[TableCell] = [None, None]
        if sizes:
            name = next(one.name for key, one in seen.items() if one and by_tenth[key])
            cells = [
                Number(sizes[place].users, digits=0, record=name),
                Number(sizes[place].mean_train_pairs or 0.0, digits=1, record=name),
            ]
        for key, one in seen.items():
            share = by_tenth[key][place].figures.get("recall@20") if by_tenth[key] else None
            cells.append(Number(100 * share, record=one.name) if one and share is not None else None)
        rows.append(((str(place + 1),), tuple(cells)))
    return Table(
        name=f"inactive-{data}-tenths",
        caption=captioned(data, "Recall@20 of every tenth of the users by activity"),
        heads=("tenth",),
        columns=(
            "users",
            "mean pairs in train",
            *(f"{method_words(method)}, {protocol}" for method, protocol in seen),
        ),
        rows=tuple(rows),
        note=TENTHS_NOTE,
    )


def _plot(data: str, seen: AllSeen, protocol: str) -> Plot | None:
    """One for each protocol: their figures are not to be compared."""
    series = []
    for (method, of), one in seen.items():
        judged = [(place, group) for place, group in enumerate(tenths(one)) if group.figures] if one else []
        if of == protocol and judged:
            xs, ys = zip(*((place + 1.0, 100 * group.figures["recall@20"]) for place, group in judged), strict=True)
            series.append(Series(method_words(method), xs, ys))
    if not series:
        return None
    return Plot(
        name=f"inactive-{data}-{protocol}",
        caption=captioned(data, f"Recall@20 by activity of users, {protocol}"),
        x="tenth of the users, the least active first",
        y="Recall@20, %",
        series=tuple(series),
        from_zero=True,
        is_shaped_by_test=protocol == "published",
    )


EXPERIMENT = Experiment(
    title="Inactive users",
    shows="Table 4: the 1,000 least active users and the others, without and with user weights; all ten deciles",
    section=section,
    cells=cells,
)
