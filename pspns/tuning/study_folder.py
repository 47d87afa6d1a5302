"""The folder of a study: what is searched, every trial, and what came of it; only one process may fill it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pspns.errors import DataError, PspnsError, SettingsError
from pspns.json_files import read_json, write_json
from pspns.new_folder import FolderKind, new_folder
from pspns.resume import make_way, unfinished
from pspns.tuning.methods import file_stem
from pspns.tuning.trials import Trial

RECORD = "study.json"
SUMMARY = "summary.json"
TRIALS = "trials"
BEST = "best"
STUDY = FolderKind("study", RECORD, frozenset({SUMMARY, TRIALS, BEST}))


def best_file(folder: Path, method: str) -> Path:
    """The settings of the method's best trial."""
    return folder / BEST / f"{file_stem(method)}.toml"


@contextmanager
def study_folder(out: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[StudyFolder]:
    """The folder, closed to other processes; checkpoints of the loop in training lie beside it."""
    if resume and overwrite:
        raise SettingsError("--resume goes on with a study and --overwrite begins it anew; say one of them")
    with unfinished(out) as checkpoints:
        folder = StudyFolder(out, checkpoints, resume=resume, overwrite=overwrite)
        folder.check_free()
        yield folder


class StudyFolder:
    """Reads and writes the files of a study."""

    def __init__(self, out: Path, checkpoints: Path, *, resume: bool, overwrite: bool):
        self.path = out
        self._checkpoints = checkpoints
        self._goes_on = resume and STUDY.is_kind_of(out)
        self._overwrite = overwrite

    def check_free(self) -> None:
        """Refuse a place that is taken before any data are read; what is overwritten stays until `begin`."""
        if self._goes_on:
            return
        if STUDY.is_kind_of(self.path) and not self._overwrite:
            raise SettingsError(
                f"{self.path} holds a study already; say --resume to go on with it, or --overwrite to begin anew"
            )
        is_empty = self.path.is_dir() and not any(self.path.iterdir())
        if self.path.exists() and not (is_empty or STUDY.is_kind_of(self.path)):
            raise SettingsError(f"{self.path} exists already and holds no study; choose another --out")
        if not self._overwrite:
            for place in self._checkpoint_places():
                make_way(place)

    def begin(self, identity: dict[str, Any], facts: dict[str, Any]) -> None:
        """Make the folder, or find that what is there is the same study or its beginning; `facts` only tell of it."""
        if self._goes_on:
            self._go_on(json.loads(json.dumps(identity)))
            return
        with new_folder(self.path, STUDY, overwrite=self._overwrite) as folder:
            for place in self._checkpoint_places():
                make_way(place, overwrite=True)
            write_json(folder / RECORD, {"study": identity, **facts})
            (folder / TRIALS).mkdir()
            (folder / BEST).mkdir()

    def read_trials(self) -> dict[str, Trial]:
        """Name → trial, as far as the study has come."""
        return {trial.name: trial for trial in map(_read_trial, sorted((self.path / TRIALS).glob("*.json")))}

    def write_trial(self, trial: Trial) -> Trial:
        """The trial as it will be read."""
        path = self.path / TRIALS / f"{trial.name}.json"
        with _written_whole(path) as partial:
            write_json(partial, dataclasses.asdict(trial))
        return _read_trial(path)

    def write_result(self, summary: dict[str, Any], best: dict[str, str]) -> None:
        """What came of the study; `best` are settings files by the names of the methods."""
        for method, text in best.items():
            with _written_whole(best_file(self.path, method)) as partial:
                partial.write_text(text, encoding="utf-8")
        with _written_whole(self.path / SUMMARY) as partial:
            write_json(partial, summary)

    def checkpoints(self, loop: str) -> Path:
        """Where a loop keeps what it has trained so far."""
        return self._checkpoints / loop

    def _checkpoint_places(self) -> list[Path]:
        """Of all loops, and of a run that was to be at this place."""
        return [self._checkpoints, *(path for path in self._checkpoints.iterdir() if path.is_dir())]

    def _go_on(self, identity: dict[str, Any]) -> None:
        record = read_json(self.path / RECORD)
        then, now = _flat(record.get("study", {})), _flat(identity)
        changed = [name for name in dict.fromkeys((*then, *now)) if then.get(name) != now.get(name)]
        if changed == ["trials"] and isinstance(then.get("trials"), int):
            self._check_can_grow(then["trials"], now["trials"], now["at_once"])
            with _written_whole(self.path / RECORD) as partial:
                write_json(partial, {**record, "study": identity})
        elif changed:
            changes = [f"{name}: then {then.get(name, 'unset')}, now {now.get(name, 'unset')}" for name in changed]
            raise SettingsError(
                f"{self.path} holds another study ({'; '.join(changes[:5])}{' …' if changes[5:] else ''}); "
                "go on with the same settings and data, or begin anew with --overwrite"
            )

    def _check_can_grow(self, then: int, now: int, at_once: int) -> None:
        """Further trials are those of a longer study only if no round was cut short."""
        if then > now or then % at_once:
            raise SettingsError(
                f"{self.path} holds a study of {then} trials, now {now} are asked for; a study can only grow, and only "
                f"from whole rounds of {at_once}: begin another study in another folder; its first trials repeat these"
            )


def _read_trial(path: Path) -> Trial:
    try:
        return Trial(**read_json(path))
    except TypeError as error:
        raise DataError(f"{path}: is not the record of a trial: {error}; begin anew with --overwrite") from error


@contextmanager
def _written_whole(path: Path) -> Iterator[Path]:
    """A file to write, which gets its name once all of it is on the disk: then a loop's checkpoints may go."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise PspnsError(f"cannot write {path}: {error.strerror}; make room and go on with --resume") from error


def _flat(tables: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, their keys joined by dots."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        found |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found
