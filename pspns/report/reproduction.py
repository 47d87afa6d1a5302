"""The reproduction's page: sections of experiments in one self-contained HTML file, every figure with its record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from pspns.errors import DataError
from pspns.evaluation.protocol import PUBLISHED, STRICT
from pspns.experiments.introduction import NAMES, introduction
from pspns.experiments.records import Record, Records
from pspns.experiments.sections import Section
from pspns.report.marks import as_html, plain
from pspns.report.rendering import render, report_libraries, write_whole
from pspns.report.what_was_run import RecordLine, what_was_run

TITLE = "PSP-NS, reproduced"
FEW = 3
"""Missing records up to which they are named at once; of more there is a count, and the names on demand."""
UNNAMED = "Other"
PLACES = ("top", "content", "contents", "reading", "what-was-run", "data", "records")
"""Of the page itself: sections have other anchors."""


def write_reproduction(
    sections: Sequence[Section],
    headline: Section,
    records_folder: Path,
    out: Path,
    *,
    title: str = TITLE,
) -> None:
    """One page: the headline, what was run, a section for each experiment, and a line for each record."""
    records = _read(records_folder)
    with report_libraries():
        from pspns.report.shown import Anchors, show

        anchors = Anchors()
        for taken in PLACES:
            anchors.new(taken)
        of_records = {name: anchors.new(f"record-{name}") for name in records}
        first, *rest = (show(section, of_records, anchors) for section in (headline, *sections))
        ran = what_was_run(records)
        text = render(
            "reproduction.html.jinja",
            {"marked": _marked, "plain": plain},
            title=title,
            introduction=introduction(),
            names=NAMES,
            headline=first,
            sections=rest,
            ran=ran,
            records=_by_data(ran.records),
            anchors=of_records,
            files_of=_files(records, records_folder, out),
            published=PUBLISHED,
            strict=STRICT,
            few=FEW,
        )
    write_whole(out, text)


def _read(folder: Path) -> dict[str, Record]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder of records; give the folder that `pspns experiment` wrote them to")
    records = Records(folder)
    found = {path.stem: records.find(path.stem) for path in sorted(folder.glob("*.json"))}
    return {name: record for name, record in found.items() if record is not None}


def _by_data(records: Sequence[RecordLine]) -> dict[str, list[RecordLine]]:
    found: dict[str, list[RecordLine]] = {}
    for record in records:
        found.setdefault(record.data or UNNAMED, []).append(record)
    return dict(sorted(found.items(), key=lambda entry: entry[0] == UNNAMED))


def _files(records: Mapping[str, Record], folder: Path, out: Path) -> dict[str, str]:
    """Name → address of the file as seen from the page; none where no path leads there."""
    try:
        way = Path(os.path.relpath(folder.resolve(), out.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return {}
    return {name: quote(f"{way}/{name}.json") for name in records}


def _marked(text: str) -> object:
    from markupsafe import Markup

    return Markup(as_html(text))
