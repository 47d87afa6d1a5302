"""How far results vary over seeds, beside the percentages that the paper states without saying what they measure; and
over random splits, where the data themselves vary."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pspns.experiments import published
from pspns.experiments.cells import HEADLINE, SEEDS_OF_HEADLINE, Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import PSP_NS, method_words
from pspns.experiments.records import Records, Seen, relative
from pspns.experiments.reproduction._beside import captioned, under_both, words
from pspns.experiments.sections import Number, Section, Table, TableCell

MODEL = "lightgcn"
PROTOCOLS = ("published", "strict")
METRICS = ("recall@20", "precision@20")
STATED_OF = PSP_NS
"""The method whose variation the paper states."""


def deviation(values: Sequence[float]) -> float:
    """Standard deviation, in percent of the mean."""
    return 100 * statistics.stdev(values) / statistics.mean(values)


def furthest(values: Sequence[float]) -> float:
    """The largest distance from the mean, in percent of it."""
    mean = statistics.mean(values)
    return 100 * max(abs(value - mean) for value in values) / mean


def span(values: Sequence[float]) -> float:
    """From the least to the largest, in percent of the mean."""
    return 100 * (max(values) - min(values)) / statistics.mean(values)


READINGS: dict[str, Callable[[Sequence[float]], float]] = {
    "deviation / mean": deviation,
    "furthest / mean": furthest,
    "range / mean": span,
}
"""What "varies by at most" may mean."""

SPLITS = (1, 2, 3)
"""Data seeds of random splits beside the given one."""
SHARES: dict[str, tuple[tuple[str, Any], ...]] = {"ml-1m": (), "epinions": (("split.test_share", 0.2),)}
"""Away from 8 : 1 : 1, as in the split given of that data set."""
SPLITS_NOTE = (
    "Recall@20 in percent: with the split as given, mean over seeds, and with random splits of the same shares, one "
    "seed each. *deviation*: over the random splits, in percent of their mean. *PSP-NS against RNS*: in percent of RNS "
    "under the same rule and split. *limit*: a seed reached the limit of steps before its patience was spent."
)
NOTE = (
    "All but the mean in percent of the mean. *deviation*: the standard deviation over seeds; *furthest*: the largest "
    "distance of a seed from the mean; *range*: from the least seed to the best. *holds*: whether ours is at most what "
    f"the paper states of {method_words(STATED_OF)}; of other methods it states nothing."
)


def cells(data: str) -> Iterable[Cell]:
    as_given = list(under_both(data, MODEL, HEADLINE))
    yield from as_given
    if data in SHARES:
        yield from (_split_anew(cell, data_seed) for data_seed in SPLITS for cell in as_given)


def _split_anew(cell: Cell, data_seed: int) -> Cell:
    shares = SHARES[cell.data]
    return cell.but(changes=(("split.name", "random"), *shares, ("run.data_seed", data_seed), ("run.seeds", (0,))))


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    seen = {data: _all_seen(asked, data) for data in data_names}
    return Section(
        name="seeds",
        title="Spread over seeds and splits",
        words=(
            f"The paper states for every data set by how much Recall@20 and Precision@20 of {method_words(STATED_OF)} "
            f"vary over {published.terms()['seeds']} seeds, at most, but not whether that is a standard deviation, the "
            "largest distance from the mean or a range. So all three readings stand here, under both protocols.",
            "A seed decides where training starts and what it draws, but not which pairs are held out. So, where the "
            "split is the paper's, random ones of the same shares stand beside it.",
            *_too_few(seen),
        ),
        tables=(
            *(_table(data, of_data) for data, of_data in seen.items()),
            *(_splits_table(asked, data) for data in data_names if data in SHARES),
        ),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


AllSeen = dict[tuple[str, str], Seen | None]
"""(method, protocol) → the record."""


def _all_seen(records: Records, data: str) -> AllSeen:
    return {
        (method, protocol): records.see(Cell(data, MODEL, method, protocol))
        for method in HEADLINE
        for protocol in PROTOCOLS
    }


def _too_few(seen: dict[str, AllSeen]) -> Iterable[str]:
    """Said of records that have fewer seeds than the paper."""
    found = {one.name: one.n_seeds for of_data in seen.values() for one in of_data.values() if one}
    few = [f"{name} ({n_seeds})" for name, n_seeds in found.items() if n_seeds < SEEDS_OF_HEADLINE]
    if few:
        yield f"These have fewer than {SEEDS_OF_HEADLINE} seeds, which makes the spread look smaller: {', '.join(few)}."


def _table(data: str, seen: AllSeen) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for (method, protocol), one in seen.items():
        for metric in METRICS:
            stated = _stated(data, metric) if method == STATED_OF else None
            rows.append(((method_words(method), protocol, words(metric)), tuple(_cells(one, metric, stated))))
    return Table(
        name=f"seeds-{data}",
        caption=captioned(data, "spread over seeds"),
        heads=("method", "protocol", "metric"),
        columns=(
            "seeds",
            "mean",
            "paper, at most",
            *(f for name in READINGS for f in (name, f"{name.split()[0]}: holds")),
        ),
        rows=tuple(rows),
        note=NOTE,
    )


def _splits_table(records: Records, data: str) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for protocol in PROTOCOLS:
        by_method = {method: _on_all_splits(records, Cell(data, MODEL, method, protocol)) for method in HEADLINE}
        for method, seen in by_method.items():
            numbers = [one.number("recall@20") if one else None for one in seen]
            drawn = [number.value for number in numbers[1:] if number]
            spread = Number(deviation(drawn), unit=" %") if len(drawn) > 1 else None
            rows.append(((method_words(method), protocol), (*numbers, spread)))
        gains = [_gain(one, plain) for one, plain in zip(by_method[PSP_NS], by_method[HEADLINE[0]], strict=True)]
        rows.append(((f"{method_words(PSP_NS)} against {method_words(HEADLINE[0])}", protocol), (*gains, None)))
    return Table(
        name=f"splits-{data}",
        caption=captioned(data, "Recall@20 on other splits"),
        heads=("method", "protocol"),
        columns=("as given", *(f"random {number}" for number in SPLITS), "deviation / mean"),
        rows=tuple(rows),
        note=SPLITS_NOTE,
    )


def _on_all_splits(records: Records, cell: Cell) -> list[Seen | None]:
    return [records.see(cell), *(records.see(_split_anew(cell, data_seed)) for data_seed in SPLITS)]


def _gain(one: Seen | None, plain: Seen | None) -> Number | None:
    if one is None or plain is None:
        return None
    percent = relative(one.mean("recall@20"), plain.mean("recall@20"))
    return Number(percent, digits=1, sign=True, unit=" %", record=one.name)


def _stated(data: str, metric: str) -> float | None:
    found = published.data_sets().get(known_data(data).printed_as)
    return found.variation_percent.get(metric) if found else None


def _cells(seen: Seen | None, metric: str, stated: float | None) -> Iterable[TableCell]:
    values = seen.per_seed(metric) if seen else []
    name = seen.name if seen else ""
    yield Number(len(values), digits=0, record=name) if values else None
    yield Number(100 * statistics.mean(values), record=name) if values else None
    yield Number(stated, unit=" %") if stated is not None else None
    for reading in READINGS.values():
        if len(values) < 2 or not statistics.mean(values):
            yield from (None, None)
            continue
        percent = reading(values)
        holds = None if stated is None else percent <= stated
        yield Number(percent, unit=" %", record=name, tone="worse" if holds is False else "")
        yield None if holds is None else "yes" if holds else "no"


EXPERIMENT = Experiment(
    title="Spread over seeds and splits",
    shows="Spread over 10 seeds of RNS and PSP-NS in three readings, beside the paper's percentages; other splits",
    section=section,
    cells=cells,
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
