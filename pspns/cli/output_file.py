"""Files that commands write where the user says."""

from __future__ import annotations

from pathlib import Path

from pspns.errors import SettingsError


def check_free(out: Path, *, overwrite: bool) -> None:
    """Nothing is replaced unless asked for; said before the work, not after it."""
    if out.is_dir():
        raise SettingsError(f"{out} is a folder; give --out the name of a file")
    if out.exists() and not overwrite:
        raise SettingsError(f"{out} exists already; give --overwrite to replace it, or another --out")
