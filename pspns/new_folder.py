"""Folders of results, written whole or not at all, and never over anything but their like."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pspns.errors import SettingsError


@dataclass(frozen=True)
class FolderKind:
    """How a folder of one kind is recognised, so that only such a one is ever replaced."""

    name: str  # for messages: run, build
    record: str  # the file without which a folder is none of this kind
    others: frozenset[str]  # what else may lie in it

    def is_kind_of(self, folder: Path) -> bool:
        return (folder / self.record).is_file()


@contextmanager
def new_folder(target: Path, kind: FolderKind, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which moves to `target` if the block ends well and leaves nothing behind if it does not."""
    target = target.absolute()
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    made: list[Path] = []
    try:
        try:
            _check_free(target, kind, overwrite=overwrite)
            made += [parent for parent in target.parents if not parent.exists()]
            partial.mkdir(parents=True)
        except OSError as error:
            raise SettingsError(f"cannot write to {target.parent}: {error.strerror}; choose another --out") from error
        yield partial
        try:
            _put_in_place(partial, target, overwrite=overwrite)
        except OSError as error:
            raise SettingsError(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            with suppress(OSError):  # it holds something by now, the finished folder for one
                parent.rmdir()


def _check_free(target: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Nothing is ever replaced but a whole folder of the same kind, and that only if asked to."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise SettingsError(f"{target} exists already; choose another --out, or say --overwrite")
    if not kind.is_kind_of(target):
        raise SettingsError(
            f"{target} is not overwritten: it has no {kind.record}, so it is no {kind.name}; choose another --out"
        )
    if strangers := {path.name for path in target.iterdir()} - kind.others - {kind.record}:
        raise SettingsError(
            f"{target} is not overwritten: it holds {min(strangers)}, which no {kind.name} wrote; move that away"
        )


def _put_in_place(partial: Path, target: Path, *, overwrite: bool) -> None:
    # On the disk before it has its name: whoever relies on the folder may then remove what it was made from.
    for path in (*partial.rglob("*"), partial):
        _flush(path)
    _rename(partial, target, overwrite=overwrite)
    _flush(target.parent)


def _flush(path: Path) -> None:
    """Nothing of a file, or of the names in a folder, is left to be written by the system later."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folder
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(partial: Path, target: Path, *, overwrite: bool) -> None:
    if not (overwrite and target.exists() and any(target.iterdir())):
        partial.replace(target)  # fails if somebody else has put something there meanwhile
        return
    replaced = target.with_name(f"{partial.name}.old")
    target.replace(replaced)
    try:
        partial.replace(target)
    except OSError:
        replaced.replace(target)
        raise
    shutil.rmtree(replaced)
