"""Whether a record was made with the settings that are asked for now."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pspns.components import find_part
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Data
from pspns.experiments.records import Records
from pspns.run import make_split
from pspns.settings import PART_SECTIONS, Settings

# What does not change a result, or not what it means.
WITHOUT_MEANING = {"run": {"device", "threads", "memory_gib", "checkpoint_seconds"}, "data": {"source"}}

Tables = dict[str, dict[str, Any]]


def check_same(path: Path, wanted: Settings, found: Tables) -> None:
    """Results of other settings are nobody's to mix with."""
    now, then = meant(wanted.as_dict()), meant(found)
    for section in sorted(now.keys() | then.keys()):
        of_now, of_then = now.get(section, {}), then.get(section, {})
        keys = [key for key in {**of_now, **of_then} if of_now.get(key, ...) != of_then.get(key, ...)]
        if keys:
            raise SettingsError(
                f"{path} was made with [{section}] {_told(of_then, keys)}, and now {_told(of_now, keys)} is asked for; "
                "ask for the same, say --keep to take it as it is, or give another --out"
            )


def _told(entries: Mapping[str, Any], keys: Sequence[str]) -> str:
    """
    >>> _told({"steps": None, "patience": 5, "loss": "bpr"}, ["patience", "steps", "beta"])
    'patience = 5, steps = none, no beta'
    """
    return ", ".join(f"{key} = {_plain(entries[key])}" if key in entries else f"no {key}" for key in keys)


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)


def check_same_data(
    name: str, data: Data, cells: Iterable[Cell], others: Iterable[str], records: Records, terms: Terms
) -> None:
    """Records of one name must be of the same data, or tables would mix what cannot be compared. `others`: records of
    trials and jobs, which split the data as plain training does."""
    fingerprints: dict[str, str] = {}

    def check(record_name: str, cell: Cell) -> None:
        found = (records.find(record_name) or {}).get("data")
        if not found or found["source"] not in (name, ""):  # of a world of its own, or of none
            return
        settings = cell.settings(terms, cell.data)
        how = repr((settings.split, settings.run.data_seed, settings.data.noise))
        if how not in fingerprints:
            split = make_split(data, settings, find_protocol(settings.run.protocol))
            fingerprints[how] = split.fingerprint()
        if found["fingerprint"] != fingerprints[how]:
            raise SettingsError(
                f"{records.folder / record_name}.json was made of other data than {name} is now: fingerprint "
                f"{found['fingerprint'][:8]}, and now {fingerprints[how][:8]}; give another --out, or say "
                "--keep to take it as it is"
            )

    for cell in cells:
        check(cell.name, cell)
    for other in others:
        check(other, Cell(name, "mf", "uniform"))


def meant(settings: Tables) -> Tables:
    """What a result depends on, as it comes back from JSON; what did not exist then is at its default."""
    plain = Settings().as_dict()
    found: Tables = {}
    for section, entries in (plain | settings).items():
        kind = PART_SECTIONS.get(section)
        defaults = dataclasses.asdict(find_part(kind, entries["name"])()) if kind else plain[section]
        without = WITHOUT_MEANING.get(section, set())
        found[section] = {key: value for key, value in {**defaults, **entries}.items() if key not in without}
    as_read: Tables = json.loads(json.dumps(found))
    return as_read
