"""Every figure that the paper prints, beside ours under `published`."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from pspns.experiments import published
from pspns.experiments._cells import MODELS
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import PSP_NS, builds_pairs, method_words
from pspns.experiments.records import Records, relative
from pspns.experiments.reproduction._beside import FAR, distance, words
from pspns.experiments.reproduction._comparisons import USERS, cell_of, figure, see_alike, see_tuned
from pspns.experiments.sections import Number, Section, Table

CHOSEN_NOTE = (
    f" *as trials chose*: with the settings of the baseline that trials on validation under `strict` chose, marked "
    f"within {FAR:g} %; none where it had no trials, or they chose its defaults."
)


@dataclass(frozen=True)
class Figure:
    """One that is printed; what several tables print is one."""

    data: str
    model: str
    method: str
    metric: str
    users: str
    printed: float
    ours: float | None
    record: str = ""
    is_tuned: bool = False
    """Whether trials chose other settings than the defaults."""
    is_limited: bool = False
    """Whether a limit of steps stopped training, so that it may have come nearer."""

    @property
    def percent(self) -> float | None:
        """How far ours is from what is printed, in percent of that."""
        return None if self.ours is None else relative(self.ours, self.printed)

    @property
    def is_far(self) -> bool:
        return self.percent is not None and abs(self.percent) > FAR


def same_as_paper(data_names: Iterable[str]) -> list[str]:
    """Those that are the paper's own data sets: no stand-in, no part, no other split."""
    return [name for name in data_names if known_data(name).printed_as and not known_data(name).note]


def paper_figures(records: Records, data_names: Sequence[str]) -> list[Figure]:
    """All that is printed of those that are the paper's own data sets, in the order of its tables."""
    found: dict[tuple[str, ...], Figure] = {}
    for table, data in itertools.product(published.tables().values(), same_as_paper(data_names)):
        for users, method, metric in itertools.product(table.figures, table.methods, table.metrics):
            printed = published.printed(
                table.name, known_data(data).printed_as, table.model, method, metric, users=users
            )
            cell = cell_of(data, table.model, method, "published")
            key = (data, table.model, cell.method, metric, users)
            if printed is None or key in found:
                continue
            (seen,) = see_alike(records, [cell])
            ours = figure(seen, metric, users) if seen else None
            record = seen.name if seen and ours is not None else ""
            # A cell with other settings has the same name with more words.
            is_tuned = record.startswith(f"{cell.name}-")
            is_limited = bool(seen and seen.limit)
            found[key] = Figure(
                data, table.model, cell.method, metric, users, printed, ours, record, is_tuned, is_limited
            )
    return list(found.values())


def figure_by_figure(records: Records, data_names: Sequence[str]) -> Section:
    """Those that are far from what is printed, with what was tried, and all of them."""
    asked = records.since()
    figures = paper_figures(asked, data_names)
    seen = [one for one in figures if one.ours is not None]
    far = sorted((one for one in seen if one.is_far), key=lambda one: -abs(one.percent or 0.0))
    caption = f"Printed figures from which ours are more than {FAR:g} % away"
    tables = [figures_table("beyond", caption, far, asked)] if far else []
    return Section(
        name="figures",
        title="Figure by figure",
        words=(
            f"The paper prints {len(figures)} figures of data sets that we have as it had them. {len(seen)} of them "
            f"have a record under `published`; {len(seen) - len(far)} of these are within {FAR:g} % of what is "
            "printed. Nothing was chosen by how close it comes.",
            *_chosen_words(asked, far),
            f"{method_words(PSP_NS)} stands here as in the paper, with the settings that trials on validation chose "
            "from its grids, if it had trials and was trained with their choice. In the tables of all methods, of "
            "variants and of inactive users it stands at its defaults, so the same printed figure may have another of "
            "ours beside it there. All other methods are at their defaults here and there.",
        ),
        tables=(*tables, *([figures_table("figures", "All that have a record", seen)] if seen else [])),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def as_chosen(records: Records, one: Figure) -> Number | None:
    """The same with the settings that trials on validation under `strict` chose in place of the authors' defaults, of a
    method that builds no pairs; None where they chose the defaults."""
    cell = cell_of(one.data, one.model, one.method)
    seen = None if builds_pairs(cell.method) else see_tuned(records, cell)
    if seen is None or seen.name == cell.name:
        return None
    ours = figure(replace(seen, mask="train"), one.metric, one.users)  # what `published` leaves out for such a method
    if ours is None:
        return None
    is_near = abs(relative(ours, one.printed)) <= FAR
    return Number(ours, note=seen.limit, record=seen.name, tone="better" if is_near else "")


def _chosen_words(records: Records, far: Sequence[Figure]) -> Iterator[str]:
    chosen = [found for one in far if (found := as_chosen(records, one))]
    if chosen:
        near = sum(one.tone == "better" for one in chosen)
        yield (
            f"Baselines stand at their authors' defaults, as in the paper. For {len(chosen)} of the figures further "
            "away trials on validation under `strict` chose other settings of that baseline, and with them "
            f"{near} {'is' if near == 1 else 'are'} within {FAR:g} %."
        )


def figures_table(
    name: str, caption: str, figures: Iterable[Figure], records_of_trials: Records | None = None
) -> Table:
    """With what trials chose and what else was tried, if there are records of trials to look at."""
    with_tried = records_of_trials is not None
    rows = [
        (
            (
                known_data(one.data).title,
                MODELS.get(one.model, one.model),
                method_words(one.method),
                f"{words(one.metric)}{USERS[one.users]}",
            ),
            (
                Number(one.printed),
                Number(one.ours, record=one.record, note=_noted(one)) if one.ours is not None else None,
                distance(one.data, one.ours, one.printed, one.record) if one.ours is not None else None,
                *(
                    []
                    if records_of_trials is None
                    else [
                        as_chosen(records_of_trials, one),
                        tried().get((one.data, one.model, one.method), "nothing yet"),
                    ]
                ),
            ),
        )
        for one in figures
    ]
    return Table(
        name=name,
        caption=caption,
        heads=("data", "model", "method", "metric"),
        columns=("paper", "ours, published", "difference", *(["as trials chose", "tried"] if with_tried else [])),
        rows=tuple(rows),
        note=(
            f"In percent, means over seeds. *difference*: of ours, in percent of what is printed; beyond {FAR:g} % "
            "ours and the paper's are called apart. *tuned*: trials on validation, whose mask test labels shape under "
            "`published`, chose other settings from the paper's grids than the defaults, which all others have. "
            "*limit*: a seed reached the limit of steps before its patience was spent, and may have come nearer."
            + (CHOSEN_NOTE if with_tried else "")
        ),
    )


def _noted(one: Figure) -> str:
    return ", ".join(word for word, holds in (("tuned", one.is_tuned), ("limit", one.is_limited)) if holds)


@cache
def tried() -> Mapping[tuple[str, str, str], str]:
    """Data, model, method → what was tried where ours is not what the paper prints; kept by hand."""
    text = resources.files("pspns.experiments").joinpath("tried.toml").read_text(encoding="utf-8")
    return {
        (data, model, method): words
        for data, models in tomllib.loads(text).items()
        for model, methods in models.items()
        for method, words in methods.items()
    }
