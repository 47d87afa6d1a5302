"""The paper's negative samplers, alone and with PSP-NS's pairs and weights. It shows three of them, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pspns.components import part_names
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_words, with_psp
from pspns.experiments.records import Difference, Records, Seen, difference, relative, why_not_compared
from pspns.experiments.reproduction._beside import WHY_NOT_NOTE, against, captioned, corrected, under_both
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell

MODEL = "lightgcn"
PROTOCOLS = ("published", "strict")
CLAIM = published.claims()["lifts-samplers"]
OF_PAPER = tuple(worse for comparison in CLAIM.comparisons for worse in comparison.worse)
SAMPLERS = (*OF_PAPER, *(
    name for name in published.tables()["overall"].methods if name in part_names("negatives") and name not in OF_PAPER
))  # fmt: skip
"""Those of its main table."""
NOTE = (
    "In percent; ± is the standard deviation over seeds. *lift, published*: in percent of the sampler alone. Alone it "
    "is trained as under `strict` and has only train left out of the ranking; with PSP constructed pairs are left out, "
    "too, unless they are held out. *lift, strict*: in points, with a 95 % bootstrap interval over users; p is that of "
    "a sign-flip test over users, Holm-corrected within the table. *limit*: a seed reached the limit of steps before "
    f"its patience was spent. {WHY_NOT_NOTE}"
)


def cells(data: str) -> Iterable[Cell]:
    return under_both(data, MODEL, [method for sampler in SAMPLERS for method in (sampler, with_psp(sampler))])


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    lifts = {data: {protocol: _lifts(asked, data, protocol) for protocol in PROTOCOLS} for data in data_names}
    return Section(
        name="samplers",
        title="Samplers with PSP-NS's pairs and weights",
        words=(
            f"The paper's {CLAIM.number}, which its text calls {CLAIM.called}: PSP-NS's pairs and weights are said to "
            f"lift {', '.join(map(method_words, OF_PAPER[:-1]))} and {method_words(OF_PAPER[-1])}. It is a picture "
            "without figures, of data sets that are not named, so that only the claim can stand beside ours. The other "
            "samplers of its main table are ours to try: the paper does not combine them with PSP.",
        ),
        tables=tuple(_table(data, of_data) for data, of_data in lifts.items()),
        plots=tuple(_plot(data, of_data) for data, of_data in lifts.items() if any(map(_tested, of_data.values()))),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


@dataclass(frozen=True)
class Lift:
    """A sampler alone and with PSP under one protocol, as far as there are records, and the difference."""

    alone: Seen | None
    with_pairs: Seen | None
    tested: Difference | None

    def in_percent(self) -> Number | None:
        if self.alone is None or self.with_pairs is None or not self.alone.mean("recall@20"):
            return None
        percent = relative(self.with_pairs.mean("recall@20"), self.alone.mean("recall@20"))
        return Number(percent, digits=1, sign=True, unit=" %", record=self.with_pairs.name)


def _lifts(records: Records, data: str, protocol: str) -> dict[str, Lift]:
    found = {}
    for sampler in SAMPLERS:
        alone, with_pairs = (
            records.see(Cell(data, MODEL, method, protocol)) for method in (sampler, with_psp(sampler))
        )
        found[sampler] = Lift(alone, with_pairs, difference(with_pairs, alone) if alone and with_pairs else None)
    return found


def _tested(lifts: dict[str, Lift]) -> dict[str, Difference]:
    return {sampler: lift.tested for sampler, lift in lifts.items() if lift.tested}


def _table(data: str, lifts: dict[str, dict[str, Lift]]) -> Table:
    tested = corrected(_tested(lifts["strict"]))
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for sampler in SAMPLERS:
        of_published, of_strict = (lifts[protocol][sampler] for protocol in PROTOCOLS)
        rows.append(((method_words(sampler), "paper" if sampler in OF_PAPER else "ours"), (
            _number(of_published.alone),
            _number(of_published.with_pairs),
            of_published.in_percent(),
            _number(of_strict.alone),
            _number(of_strict.with_pairs),
            *against(tested.get(sampler), why_not_compared(of_strict.with_pairs, of_strict.alone)),
        )))  # fmt: skip
    return Table(
        name=f"samplers-{data}",
        caption=captioned(data, "Recall@20 of samplers alone and with PSP"),
        heads=("sampler", "combined by"),
        columns=(
            "alone, published", "with PSP, published", "lift, published",
            "alone, strict", "with PSP, strict", "lift, strict", "p",
        ),
        rows=tuple(rows),
        note=NOTE,
    )  # fmt: skip


def _number(seen: Seen | None) -> Number | None:
    return seen.number("recall@20") if seen else None


def _plot(data: str, lifts: dict[str, dict[str, Lift]]) -> Plot:
    """In points under both protocols, so that they have one scale."""
    return Plot(
        name=f"samplers-{data}",
        caption=captioned(data, "what PSP adds to each sampler, with 95 % bootstrap intervals over users"),
        x="sampler",
        y="points of Recall@20",
        series=tuple(
            Series(
                label=protocol,
                xs=tuple(float(SAMPLERS.index(sampler)) for sampler in tested),
                ys=tuple(100 * one.mean for one in tested.values()),
                lows=tuple(100 * one.low for one in tested.values()),
                highs=tuple(100 * one.high for one in tested.values()),
            )
            for protocol in PROTOCOLS
            if (tested := _tested(lifts[protocol]))
        ),
        ticks=tuple(map(method_words, SAMPLERS)),
        levels=(("no lift", 0.0),),
        joined=False,
    )


EXPERIMENT = Experiment(
    title="Samplers with PSP-NS's pairs and weights",
    shows="Figure 2(c)–(d): DNS, MixGCF and AHNS without and with PSP; so the other samplers of Table 2",
    section=section,
    cells=cells,
)
