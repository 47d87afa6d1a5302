"""The folder of a build: positives for any trainer, and a record of how they were made."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl

from pspns.api import BUILD_SECTIONS
from pspns.built_positives import PAIRS, USERS, BuiltPositives
from pspns.data.split import Split
from pspns.errors import PspnsError
from pspns.evaluation.protocol import find_protocol
from pspns.json_files import write_json
from pspns.new_folder import FolderKind, new_folder
from pspns.positives_quality import Quality
from pspns.record import describe_data, describe_machine, describe_versions
from pspns.run import choose_device
from pspns.settings import Settings

RECORD = "build.json"
BUILD = FolderKind("build", RECORD, frozenset({PAIRS, USERS}))


def new_build_folder(target: Path, *, overwrite: bool = False) -> AbstractContextManager[Path]:
    """A folder to fill, which moves to `target` if the block ends well and leaves nothing behind if it does not."""
    return new_folder(target, BUILD, overwrite=overwrite)


def write_build(built: BuiltPositives, split: Split, settings: Settings, quality: Quality | None, folder: Path) -> None:
    """The pairs, the users, and what they were built from and how."""
    protocol = find_protocol(settings.run.protocol)
    record = {
        "protocol": {"name": protocol.name, "meaning": protocol.meaning, "warning": protocol.warning},
        "data": describe_data(split, settings.data.source),
        "positives": built.facts,
        "quality": dataclasses.asdict(quality) if quality else None,
        "settings": {section: values for section, values in settings.as_dict().items() if section in BUILD_SECTIONS},
        "versions": describe_versions(),
        "machine": describe_machine(choose_device(settings.run.device)),
    }
    try:
        built.write(folder)
        write_json(folder / RECORD, record)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PspnsError(f"cannot write the files of the build: {error}") from error
