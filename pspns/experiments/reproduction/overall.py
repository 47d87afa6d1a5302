"""The paper's main table: all methods with LightGCN on four data sets, beside models without training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction._beside import all_methods, numbered, under_both
from pspns.experiments.reproduction._tuned import to_tune, tuned_table
from pspns.experiments.sections import Section

MODEL, TABLE = "lightgcn", "overall"
METHODS = (*published.tables()[TABLE].methods, "recommended")


def cells(data: str) -> Iterable[Cell]:
    return under_both(data, MODEL, METHODS)


def tuned(data: str) -> Iterable[Cell]:
    return to_tune(data, MODEL, METHODS)


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    return Section(
        name="overall",
        title="All methods",
        words=(
            f"The paper's {numbered(TABLE)}: every baseline and PSP-NS with LightGCN. Models that need no training "
            "loop (popular, svd, ease) and our recipe `recommended` stand beside them.",
        ),
        tables=(
            *all_methods(asked, TABLE, data_names, MODEL, METHODS),
            *(tuned_table(asked, f"{TABLE}-{data}-tuned", data, MODEL, METHODS) for data in data_names),
        ),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


EXPERIMENT = Experiment(
    title="All methods",
    shows="Table 2: eleven methods with LightGCN, beside popular, svd, ease and recommended",
    section=section,
    cells=cells,
    tuned=tuned,
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
