"""The paper's tables of all methods with one model, beside models without training, our recipe, and all as tuned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pspns.experiments import published
from pspns.experiments._cells import MODELS
from pspns.experiments.cells import Cell
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction._beside import beside_paper, numbered, other_metrics, under_both
from pspns.experiments.reproduction._tuned import to_tune, tuned_table
from pspns.experiments.sections import Section, Table


def main_table_experiment(table: str, *, title: str, shows: str, data: Sequence[str], words: str = "") -> Experiment:
    """`table`: the paper's, whose name the experiment has; `words`: what is to be said of this one alone."""
    printed = published.tables()[table]
    model, methods = printed.model, (*printed.methods, "recommended")

    said = (
        f"The paper's {numbered(table)}: every baseline and PSP-NS with {MODELS[model]}.",
        words,
        "Models that need no training loop (popular, svd, ease) and our recipe `recommended` stand beside them.",
    )

    def cells(data: str) -> Iterable[Cell]:
        return under_both(data, model, methods)

    def tuned(data: str) -> Iterable[Cell]:
        return to_tune(data, model, methods)

    def section(records: Records, data_names: Sequence[str]) -> Section:
        asked = records.since()
        tables: list[Table] = []
        for name in data_names:
            tables += [
                beside_paper(asked, f"{table}-{name}", name, model, methods, table=table),
                other_metrics(asked, f"{table}-{name}-other-metrics", name, model, methods, table),
            ]
        tables += [tuned_table(asked, f"{table}-{name}-tuned", name, model, methods) for name in data_names]
        return Section(
            name=table,
            title=title,
            words=(" ".join(filter(None, said)),),
            tables=tuple(tables),
            is_shaped_by_test=True,
            missing=tuple(asked.missing),
        )

    return Experiment(title=title, shows=shows, section=section, cells=cells, tuned=tuned, data=tuple(data))
