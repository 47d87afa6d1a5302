"""The paper's table of MF: all methods that a model without a graph can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction._beside import all_methods, numbered, under_both
from pspns.experiments.reproduction._tuned import to_tune, tuned_table
from pspns.experiments.sections import Section

MODEL, TABLE = "mf", "mf"
METHODS = (*published.tables()[TABLE].methods, "recommended")


def cells(data: str) -> Iterable[Cell]:
    return under_both(data, MODEL, METHODS)


def tuned(data: str) -> Iterable[Cell]:
    return to_tune(data, MODEL, METHODS)


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    return Section(
        name="mf",
        title="All methods with MF",
        words=(
            f"The paper's {numbered(TABLE)}: every baseline and PSP-NS with MF. MixGCF is not among them, as it mixes "
            "the layers of a graph model, and MF has none. Models that need no training loop "
            "(popular, svd, ease) and our recipe `recommended` stand beside them.",
        ),
        tables=(
            *all_methods(asked, TABLE, data_names, MODEL, METHODS),
            *(tuned_table(asked, f"{TABLE}-{data}-tuned", data, MODEL, METHODS) for data in data_names),
        ),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


EXPERIMENT = Experiment(
    title="All methods with MF",
    shows="Table 5: ten methods with MF, beside popular, svd, ease and recommended",
    section=section,
    cells=cells,
    tuned=tuned,
)
