"""`pspns data list` and `pspns data get`: the known data sets, where they are, and how to come by them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from pspns.cli.screen import messages, say, show_table, tell
from pspns.components import find_part, part_names
from pspns.data.catalogue._local import Counts
from pspns.data.download import Watch
from pspns.data.interactions import Interactions
from pspns.data.load import data_folder
from pspns.errors import unknown_name

# What a data set's origin means for who does not have it yet.
_WHERE = {"generated": "generated", "fetched": "can be fetched", "provided": "must be provided"}


def show_datasets(folder: str | None, *, as_json: bool) -> None:
    """Every known data set, its size, and where it is now."""
    rows = [_entry(name, data_folder(folder)) for name in part_names("datasets")]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    columns = ("name", "size", "where")
    show_table("Data sets", columns, [[row[column] for column in columns] for row in rows], text_columns=3)


def get_dataset(name: str, folder: str | None) -> None:
    """See to it that a data set is there and right; where it lies is the result."""
    if name not in part_names("datasets"):
        raise unknown_name("data set", name, part_names("datasets"))
    dataset, place = find_part("datasets", name)(), data_folder(folder)
    about = dataset.about
    say(f"{about.title}: {about.size}")
    say(f"terms: {about.terms}")
    say(f"to cite: {about.citation}")
    with _fetching_progress() as watch:
        path = dataset.get(place, watch)
    if path is None:
        say(f"nothing to get: {about.source}")
        return
    data = dataset.load(place)
    say(f"checked: {Counts.of(data).in_full()}")
    pairs = data if isinstance(data, Interactions) else data.interactions
    for fact in pairs.facts:
        if about.terms not in fact:  # they stand above
            say(f"  {fact}")
    tell(str(path))


def _entry(name: str, folder: Path | None) -> dict[str, Any]:
    dataset = find_part("datasets", name)()
    about, path = dataset.about, dataset.find(folder)
    return {
        "name": name,
        "title": about.title,
        "size": about.size,
        "where": _WHERE[about.origin] if path is None else "on this machine",
        "path": None if path is None else str(path),
        "source": about.source,
        "terms": about.terms,
        "citation": about.citation,
    }


@contextmanager
def _fetching_progress() -> Iterator[Watch]:
    """A bar in a terminal, a plain line for each tenth elsewhere; neither where nothing is fetched."""
    if not messages.is_terminal:
        shown = [-1]

        def tell_tenths(done: int, total: int | None) -> None:
            tenth = 10 * done // total if total else done // 1_000_000
            if tenth > shown[0]:
                shown[0] = tenth
                say(f"fetched {done / 1e6:.1f} MB" + (f" of {total / 1e6:.1f}" if total else ""))

        yield tell_tenths
        return
    columns = (TextColumn("fetching"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as bars:

        def move_bar(done: int, total: int | None) -> None:
            # What an earlier call fetched is no part of the speed: the bar begins there.
            bar = bars.task_ids[0] if bars.task_ids else bars.add_task("", total=total, completed=done)
            bars.update(bar, completed=done)

        yield move_bar
