"""Files that commands write where the user says."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pspns.errors import SettingsError


def check_free(out: Path, *, overwrite: bool) -> None:
    """Nothing is replaced unless asked for; said before the work, not after it."""
    if out.is_dir():
        raise SettingsError(f"{out} is a folder; give --out the name of a file")
    if out.exists() and not overwrite:
        raise SettingsError(f"{out} exists already; give --overwrite to replace it, or another --out")


def check_place(out: Path, *, overwrite: bool) -> None:
    """The same, and that a file can be made there at all: before hours of training."""
    check_free(out, overwrite=overwrite)
    folder = out.absolute().parent
    if not folder.is_dir():
        raise SettingsError(f"--out: there is no folder {folder}; make it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(f"--out: no file can be made in {folder}: {error.strerror}; choose another one") from error
