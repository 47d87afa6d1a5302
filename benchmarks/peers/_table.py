"""What came out, as Markdown and JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Unit:
    """How the seconds of a subject are written."""

    title: str
    what: str  # what is in a column of figures
    meaning: str  # of the column `answer`
    show: Callable[[float], str]


@dataclass(frozen=True)
class Row:
    """One rival in one subject; seconds are for one epoch, step, ranking or million draws, turn after turn."""

    subject: str
    rival: str
    note: str
    answer: str = ""  # how it relates to ours
    ours_seconds: Sequence[float] = ()
    rival_seconds: Sequence[float] = ()
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    failed: str = ""  # why there are no figures

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is, by the medians."""
        if not self.ours_seconds:
            return None
        return statistics.median(self.rival_seconds) / statistics.median(self.ours_seconds)

    @property
    def ratio_of_least(self) -> float | None:
        """The same by the least of the times, which other work on the machine disturbs less."""
        return min(self.rival_seconds) / min(self.ours_seconds) if self.ours_seconds else None


def plain(digits: int) -> Callable[[float], str]:
    return lambda seconds: f"{seconds:.{digits}f}"


def as_markdown(heading: str, units: Mapping[str, Unit], rows: Sequence[Row]) -> str:
    """One table for each subject."""
    lines = ["# `make bench-peers`", "", heading]
    for subject, unit in units.items():
        lines += ["", f"## {unit.title}", "", f"Figures: {unit.what}; medians. Answer: {unit.meaning}", ""]
        lines += ["| rival | answer | rival's | ours | times faster (by the least) | pairs | note |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [as_line(row, unit) for row in rows if row.subject == subject]
    versions = {", ".join(f"{name} {version}" for name, version in row.versions.items()) for row in rows}
    lines += ["", "## Versions", "", *(f"- {each}" for each in sorted(versions) if each)]
    return "\n".join(lines) + "\n"


def as_line(row: Row, unit: Unit) -> str:
    if row.ratio is None:
        # A message from another program may hold what ends a cell.
        return f"| {row.rival} | **no figures**: {row.failed.replace('|', '/')} | – | – | – | 0 | {row.note} |"
    rival, ours = (unit.show(statistics.median(times)) for times in (row.rival_seconds, row.ours_seconds))
    times = f"{row.ratio:.2f} ({row.ratio_of_least:.2f})"
    return f"| {row.rival} | {row.answer} | {rival} | {ours} | {times} | {len(row.ours_seconds)} | {row.note} |"


def write(folder: Path, machine: Mapping[str, Any], units: Mapping[str, Unit], rows: Sequence[Row]) -> None:
    """`peers.md` and `peers.json`."""
    folder.mkdir(exist_ok=True)
    heading = ", ".join(f"{name} {value}" for name, value in machine.items())
    (folder / "peers.md").write_text(as_markdown(heading, units, rows))
    found = [{**dataclasses.asdict(row), "ratio": row.ratio, "ratio_of_least": row.ratio_of_least} for row in rows]
    (folder / "peers.json").write_text(json.dumps({"machine": dict(machine), "results": found}, indent=2) + "\n")
