"""`pspns data show` and `pspns data check`: what data look like, and what looks wrong in them."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pspns.cli import screen
from pspns.cli.screen import say, show_table, tell
from pspns.components import find_part, part_names
from pspns.data.check import check
from pspns.data.files import find_format, read_file
from pspns.data.findings._data import Finding, counted, percent
from pspns.data.folder import open_parts, with_common_roles
from pspns.data.formats._text import exists, unpacked_name
from pspns.data.gather import Gathered, gather
from pspns.data.load import data_folder, find_in_data_folder, load, path_of
from pspns.data.profile import Bin, Profile, TimeSpan, profile
from pspns.data.split import GivenSplit, Part
from pspns.data.table import Reading, Table
from pspns.errors import DataError, SettingsError
from pspns.sorted_keys import distinct

if TYPE_CHECKING:
    # Not at run time: looking at data must not wait for torch.
    from pspns.data.settings import DataSettings

_WIDEST_BAR = 40


def show_data(asked: DataSettings, *, as_json: bool) -> None:
    """Users, items, pairs, density, degree percentiles and a histogram."""
    options = {name: value for name, value in dataclasses.asdict(asked).items() if name != "noise"}
    source = options.pop("source")
    data = load(source, **options)
    found = profile(data)
    if as_json:
        print(json.dumps({"source": source, **found.as_dict()}, indent=2, ensure_ascii=False))
        return
    for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
        say(fact)
    show_table(source, ["", "value"], _figures(found))
    users, items = found.user_degrees, found.item_degrees
    rows = [[name, f"{cut:,}", f"{items.percentiles[name]:,}"] for name, cut in users.percentiles.items()]
    rows.append(["mean", f"{users.mean:,.1f}", f"{items.mean:,.1f}"])
    show_table("Pairs, percentiles", ["", "per user", "per item"], rows)
    _show_histogram("Users by how many pairs they have", users.histogram)
    _show_histogram("Items by how many pairs they have", items.histogram)


def check_data(asked: DataSettings, *, strict: bool, as_json: bool) -> None:
    """What a file or a folder of parts holds, and what looks wrong; `strict` makes an error of warnings."""
    path = _path(asked)
    how = Reading(**{field.name: getattr(asked, field.name) for field in dataclasses.fields(Reading)})
    if path.is_dir():
        parts = open_parts(path, how, format=asked.format)
        whole, _ = with_common_roles(list(parts.values()), asked.min_rating)
        tables, format = dict(zip(parts, whole, strict=True)), None
    else:
        format = asked.format or find_format(path, asked.encoding)
        tables = {Part.TRAIN: read_file(path, how, format)}
    gathered = gather(list(tables.values()), min_rating=asked.min_rating)
    labels = {role: label for table in reversed(tables.values()) for role, label in table.labels.items()}
    findings = check(gathered, parts=list(tables), labels=labels, now=time.time(), min_rating=asked.min_rating)
    if as_json:
        print(json.dumps(_as_dict(path, format, tables, gathered, findings), indent=2, ensure_ascii=False))
    else:
        _tell_contents(format, tables, gathered)
        _tell_findings(findings)
    n_warnings = sum(finding.severity == "warning" for finding in findings)
    if strict and n_warnings:
        raise DataError(f"{path}: {counted(n_warnings, 'warning')}, and --strict allows none")


def _path(asked: DataSettings) -> Path:
    source = asked.source or ""
    path = path_of(source)
    if not exists(path):
        place = data_folder(asked.folder)
        found = find_part("datasets", source)().find(place) if source in part_names("datasets") else None
        if found is None and source in part_names("datasets"):
            raise DataError(f"'{source}' has no file on this machine that could be checked")
        path = found or find_in_data_folder(source, place)
    for name in ("core", "min_user_pairs", "min_item_pairs"):
        if getattr(asked, name) is not None:
            raise SettingsError(f"{name} cannot be set to check a file: it is checked as it is; leave it out")
    return path


def _figures(found: Profile) -> list[list[str]]:
    parts = {} if found.parts is None else found.parts
    return [
        ["users", f"{found.users:,}"],
        ["items", f"{found.items:,}"],
        ["pairs", f"{found.pairs:,}"],
        *([f"pairs in {part}", f"{size:,}"] for part, size in parts.items()),
        ["density", percent(found.density)],
        *([] if found.times is None else [["times", found.times.words()]]),
        ["users with fewer than 5 pairs", f"{found.user_degrees.below_5:,}"],
        ["items with fewer than 5 pairs", f"{found.item_degrees.below_5:,}"],
        ["share of pairs, most popular 1 % of items", percent(found.top_1_percent_share)],
        ["share of pairs, most popular 10 % of items", percent(found.top_10_percent_share)],
        ["Gini index of item popularity", f"{found.item_gini:.2f}"],
    ]


def _show_histogram(title: str, bins: Sequence[Bin]) -> None:
    labels = [f"{bin.least:,}" + (f" to {bin.most:,}" if bin.most > bin.least else "") for bin in bins]
    counts = [f"{bin.count:,}" for bin in bins]
    label_width, count_width = max(map(len, labels)), max(map(len, counts))
    widest = max(1, min(_WIDEST_BAR, screen.results.width - label_width - count_width - 3))
    most = max(bin.count for bin in bins)
    block = _block()
    tell("")
    tell(title)
    for bin, label, count in zip(bins, labels, counts, strict=True):
        # What is there is seen, however little it is.
        length = -(-bin.count * widest // most)
        tell(f"{label:>{label_width}}  {count:>{count_width}} {block * length}".rstrip())


def _block() -> str:
    try:
        "█".encode(screen.results.encoding)
    except (UnicodeEncodeError, LookupError):
        return "#"
    return "█"


def _tell_contents(format: str | None, tables: dict[Part, Table], gathered: Gathered) -> None:
    common = set.intersection(*(set(table.facts) for table in tables.values()))
    for (part, table), found in zip(tables.items(), gathered.tables, strict=True):
        path = Path(table.source)
        kind = part.name.lower() if format is None else f"format {format}"
        packed = f", packed as {path.suffix}" if unpacked_name(path) != path else ""
        left_out = f", {found.n_low:,} more left out by min_rating" if found.n_low else ""
        tell(f"{table.source}: {kind}{packed}, {counted(found.n_rows, 'row')}{left_out}")
        for fact in table.facts:
            if fact not in common:
                tell(f"  {fact}")
        if found.ratings is not None:
            values = found.ratings[0]
            tell(f"  ratings from {values.min():g} to {values.max():g}, {len(values):,} different")
        if found.times is not None:
            tell(f"  times from {TimeSpan.of(found.times).words()}")
    for fact in (*tables[Part.TRAIN].facts, *gathered.time_facts):
        if fact in common or fact in gathered.time_facts:
            tell(fact)
    n_users, n_items, n_pairs = len(gathered.user_ids), len(gathered.item_ids), _distinct_pairs(gathered)
    tell(
        f"{counted(n_users, 'user')}, {counted(n_items, 'item')}, {counted(n_pairs, 'distinct pair')}: "
        f"{percent(n_pairs / (n_users * n_items))} of all that could be"
    )


def _distinct_pairs(gathered: Gathered) -> int:
    keys = [found.users * len(gathered.item_ids) + found.items for found in gathered.tables]
    return len(distinct(np.concatenate(keys)))


def _tell_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        tell("")
        tell(f"{finding.severity}: {finding.what}")
        tell(f"  {finding.advice}")
    tell("")
    n_warnings = sum(finding.severity == "warning" for finding in findings)
    counts = f"{counted(n_warnings, 'warning')}, {counted(len(findings) - n_warnings, 'note')}"
    if n_warnings:
        tell(f"{counts}: the data can be read; look at the warnings before you train on them.")
    elif findings:
        tell(f"{counts}: nothing looks wrong.")
    else:
        tell("Nothing looks wrong.")


def _as_dict(
    path: Path, format: str | None, tables: dict[Part, Table], gathered: Gathered, findings: Sequence[Finding]
) -> dict[str, Any]:
    return {
        "source": str(path),
        "users": len(gathered.user_ids),
        "items": len(gathered.item_ids),
        "pairs": _distinct_pairs(gathered),
        "files": [
            {
                "file": table.source,
                "part": None if format else part.name.lower(),
                "format": format,
                "columns": table.labels,
                "facts": [*table.facts, *gathered.time_facts],
                "rows": found.n_rows,
                "rows_left_out": found.n_low,
                "pairs": len(found.users),
            }
            for (part, table), found in zip(tables.items(), gathered.tables, strict=True)
        ],
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }
