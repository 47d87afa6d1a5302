"""Whether a record was made with the settings that are asked for now."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from pspns.components import find_part
from pspns.errors import SettingsError
from pspns.settings import PART_SECTIONS, Settings

# What does not change a result, or not what it means.
WITHOUT_MEANING = {"run": {"device", "threads", "memory_gib", "checkpoint_seconds"}, "data": {"source"}}

Tables = dict[str, dict[str, Any]]


def check_same(path: Path, wanted: Settings, found: Tables) -> None:
    """Results of other settings are nobody's to mix with."""
    now, then = meant(wanted.as_dict()), meant(found)
    for section in sorted(now.keys() | then.keys()):
        if now.get(section) != then.get(section):
            raise SettingsError(
                f"{path} was made with [{section}] {then.get(section)}, and now {now.get(section)} is asked for; ask "
                "for the same, say --keep to take it as it is, or give another --out"
            )


def meant(settings: Tables) -> Tables:
    """What a result depends on, as it comes back from JSON; a key or section that did not exist then is at its default."""
    plain = Settings().as_dict()
    found: Tables = {}
    for section, entries in (plain | settings).items():
        kind = PART_SECTIONS.get(section)
        defaults = dataclasses.asdict(find_part(kind, entries["name"])()) if kind else plain[section]
        without = WITHOUT_MEANING.get(section, set())
        found[section] = {key: value for key, value in {**defaults, **entries}.items() if key not in without}
    as_read: Tables = json.loads(json.dumps(found))
    return as_read
