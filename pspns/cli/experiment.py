"""`pspns experiment`: names, data, records, tables, page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pspns.cli.interruption import Interruption
from pspns.cli.screen import best_alone, say, show_table, tell, training_progress, warn
from pspns.components import find_part, part_names
from pspns.data.formats._text import bare_name
from pspns.data.load import data_folder, find_in_data_folder, load
from pspns.data.split import GivenSplit
from pspns.errors import SettingsError
from pspns.evaluation.protocol import PUBLISHED
from pspns.experiments.carrying_out import NotTrainedError, carry_out
from pspns.experiments.cells import Terms
from pspns.experiments.due import known_names, what_is_due
from pspns.experiments.experiment import Data, Experiment
from pspns.experiments.headline import headline
from pspns.experiments.paper_figures import figure_by_figure
from pspns.experiments.records import Records
from pspns.experiments.request import (
    CELLS,
    PAGE,
    QUICK_WORDS,
    UNFINISHED,
    asked_experiments,
    by_data,
    check_out,
    is_quick_look,
    noted,
    sections_of,
    stopped,
)
from pspns.experiments.sections import Number, Section, Table, TableCell
from pspns.report.marks import plain
from pspns.report.reproduction import write_reproduction

SHORT = {"planted": "planted-clustered"}
BY_USER = "by-user"
"""The folder inside a data set's that holds it split another way."""


def experiment_and_show(
    names: Sequence[str], data: str | None, out: Path, terms: Terms, *, keep: bool, only_report: bool
) -> None:
    """Run what has no record yet, show what was found, and write the page."""
    experiments = asked_experiments(names)
    sources = None if data is None else read_data(data)
    wanted = by_data(experiments, None if sources is None else list(sources))
    check_out(out)
    records = Records(out / CELLS)
    failed: NotTrainedError | None = None
    if only_report:
        _check_some_record(records, wanted)
    else:
        try:
            _run(wanted, sources or {}, records, terms, out, keep=keep)
        except NotTrainedError as error:  # what could be is worth seeing
            failed = error
    if failed and not records.folder.is_dir():
        raise failed  # there is nothing to show
    _show(experiments, wanted, records, out)
    if failed:
        raise failed


def _check_some_record(records: Records, wanted: Mapping[str, Sequence[Experiment]]) -> None:
    """A page without a figure would take the place of one that may have some."""
    names = [path.stem for path in records.folder.glob("*.json")]
    if not names:
        raise SettingsError(f"there is no record in {records.folder} to report on; run without --only-report first")
    if known_names(wanted, records).isdisjoint(names):
        sources = sorted({source for name in names if (source := _source(records.find(name)))})
        raise SettingsError(
            f"no record in {records.folder} is of {', '.join(wanted)}; give --data, of which there are records: "
            f"{', '.join(sources) or 'none'}"
        )


def _source(record: dict[str, Any] | None) -> str:
    data = record.get("data") if record else None
    return str(data.get("source") or "") if isinstance(data, dict) else ""


def read_data(text: str) -> dict[str, str]:
    """Name → where from, of the data sets in a list with commas between them.

    >>> read_data("planted, ml-1m-by-user")
    {'planted-clustered': 'planted-clustered', 'ml-1m-by-user': 'ml-1m-by-user'}
    """
    sources: dict[str, str] = {}
    for piece in [text] if Path(text).exists() else text.split(","):
        source = piece.strip()
        if not source:
            raise SettingsError(f"--data must be names or paths with commas between them, got '{text}'")
        name = _name_of(Path(source)) if Path(source).exists() else SHORT.get(source, source)
        if name in sources:
            raise SettingsError(f"--data names two data sets '{name}': {sources[name]} and {source}; give one of them")
        sources[name] = SHORT.get(source, source)
    return sources


def _name_of(path: Path) -> str:
    """Of a file its stem, of a folder its name; of a folder with another split of a data set that of both."""
    path = path.resolve()
    if path.name == BY_USER:
        return f"{path.parent.name}-{BY_USER}"
    return path.name if path.is_dir() else bare_name(path).stem


def _run(
    wanted: Mapping[str, Sequence[Experiment]],
    sources: Mapping[str, str],
    records: Records,
    terms: Terms,
    out: Path,
    *,
    keep: bool,
) -> None:
    # Records that are all there need no data, unless somebody says of which they should be.
    needed = [name for name in wanted if name in sources or what_is_due(name, wanted[name], records, terms, keep=keep)]
    for name in needed:
        _find(sources.get(name, name))  # not after hours with the others

    def load_named(name: str) -> Data:
        data = load(_place(sources.get(name, name)))
        for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
            say(fact)
        return data

    with Interruption() as interruption:
        try:
            with training_progress("recall@20", "validation, the best of the loop,") as watch:
                carry_out(
                    {name: wanted[name] for name in needed},
                    records,
                    terms,
                    load_named,
                    keep=keep,
                    unfinished=out / UNFINISHED,
                    watch=interruption.watch_too(best_alone(watch, "recall@20")),
                    say=say,
                )
        except KeyboardInterrupt as error:
            raise stopped(out, interruption.exit_code) from error


def _place(source: str) -> str:
    """Where `load` finds it: split by user, a data set lies in a folder of its own inside the other one's."""
    if Path(source).exists() or not source.endswith(f"-{BY_USER}"):
        return source
    return f"{source.removesuffix(f'-{BY_USER}')}/{BY_USER}"


def _find(source: str) -> None:
    """An error that says how to obtain the data if they are not there; what can be fetched is fetched."""
    place = _place(source)
    if Path(place).exists():
        return
    if place in part_names("datasets"):
        find_part("datasets", place)().get(data_folder(None))
    else:
        find_in_data_folder(place, data_folder(None))


def _show(
    experiments: Mapping[str, Experiment],
    wanted: Mapping[str, Sequence[Experiment]],
    records: Records,
    out: Path,
) -> None:
    """The first table of each experiment, what must be known of it, and the page with all."""
    sections = sections_of(experiments, wanted, records)
    for section in sections:
        _show_first_table(section)
    if any(section.is_shaped_by_test for section in sections):
        warn(f"figures under {PUBLISHED.name}: {PUBLISHED.warning}")
    missing = {name for section in sections for name in section.missing}
    if missing:
        are_missing = "record is" if len(missing) == 1 else "records are"
        warn(f"{len(missing):,} {are_missing} missing, such as {min(missing)}; what they would show is left empty")
    if is_quick_look(records):
        warn(QUICK_WORDS)
    page = out / PAGE
    sections.append(figure_by_figure(records, list(wanted)))
    write_reproduction(sections, noted(headline(records, list(wanted)), records), records.folder, page)
    tell(f"All of it, with plots and the records behind every figure: {page}")


def _show_first_table(section: Section) -> None:
    if not section.tables:
        tell(f"{section.title}: {' '.join(section.words)}")
        return
    table = section.tables[0]
    show_table(
        f"{section.title}: {table.caption}",
        [*table.heads, *table.columns],
        [[*heads, *map(_text, cells)] for heads, cells in table.rows],
        text_columns={*range(len(table.heads)), *_columns_of_words(table)},
    )
    if len(section.tables) > 1:
        n_more = len(section.tables) - 1
        tell(f"{n_more} more {'table' if n_more == 1 else 'tables'} of it on the page.")


def _columns_of_words(table: Table) -> Iterator[int]:
    for place in range(len(table.columns)):
        if not any(isinstance(cells[place], Number) for _, cells in table.rows):
            yield len(table.heads) + place


def _text(cell: TableCell) -> str:
    return "–" if cell is None else plain(str(cell))
