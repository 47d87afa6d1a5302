"""Checkpoints: the state of a training, one file each, written whole or not at all and verified before use."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from reprlib import Repr
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from pspns.errors import PspnsError, SettingsError
from pspns.lock_file import HeldError, held

FORMAT = 1
CHANGES_LISTED = 5
SHORT = Repr()
SHORT.maxstring, SHORT.maxlist = 60, 10

# The header of a file is JSON, which escapes quotes inside texts: these bytes occur in it once, before the digest.
SEAL = b'"sha256":"'
BLANK = b"0" * 64  # what the digest is computed over in its own place


@dataclass(frozen=True)
class Checkpoint:
    """All that a training needs to go on as if it had never stopped."""

    step: int
    tensors: dict[str, Tensor]
    notes: dict[str, Any]


class Checkpoints:
    """The checkpoints of one training in a folder; the last two are kept, so that one may be damaged.

    `identity` says what is trained (settings, data, versions) in nested JSON values; a training of any other
    identity does not go on from here. Use the methods inside `with checkpoints.lock():`.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]):
        self._folder = folder
        # As it will be read: a tuple comes back as a list, and that is no change of settings.
        self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._damaged: set[int] = set()  # steps whose file `latest` had to pass over
        self._unfinished = folder / ".unfinished"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes out while the block runs; the lock dies with this process, however that ends."""
        advice = "make it a folder that can be written to, or choose another --out"
        with ExitStack() as until_the_end:
            with _disk_errors(f"{self._folder}: cannot be used for checkpoints", advice):
                try:
                    until_the_end.callback(self._remove_folder_if_empty)
                    until_the_end.enter_context(held(self._folder / "lock"))
                except HeldError as error:
                    raise PspnsError(
                        f"{self._folder}: another run ({error}) writes its checkpoints there; "
                        "wait for its end, or choose another --out"
                    ) from None
            self._remove_unfinished()
            yield

    def write(self, step: int, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
        """Put a checkpoint in place, then remove those no longer needed.

        `notes` are JSON values and come back to the bit: whole numbers of any size, floats even if infinite or NaN.
        """
        content = json.dumps({"format": FORMAT, "step": step, "identity": self._identity, "notes": notes})
        if repr(json.loads(content)["notes"]) != repr(notes):
            # A tuple would come back as a list, the key 0 as "0": better found here than by whoever resumes.
            raise TypeError("notes must be made of dicts with text keys, lists, texts, plain numbers, bools and None")
        path = self._path(step)
        unfinished = self._unfinished / path.name
        advice = "earlier checkpoints are kept; make room and run again, or choose another --out"
        with _disk_errors(f"{path}: cannot be written", advice):
            self._remove_unfinished()
            try:
                # A folder of its own, because safetensors makes temporary files beside its target, named as it likes.
                self._unfinished.mkdir(parents=True)
                metadata = {"content": content, "sha256": BLANK.decode()}
                save_file(_storable(tensors), unfinished, metadata=metadata)
                _seal(unfinished)
                unfinished.replace(path)
                _sync_folder(self._folder)
            finally:
                self._remove_unfinished()
            self._damaged.discard(step)
            self._remove_all_but(step)

    def latest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole checkpoint, if there is any; `say` is told of newer ones that are damaged."""
        damaged: list[str] = []
        for step in sorted(self.steps_written(), reverse=True):
            path = self._path(step)
            try:
                content, tensors = _read(path, step)
            except _DamagedError as error:
                damaged.append(f"{path}: {error}")
                self._damaged.add(step)
                continue
            for complaint in damaged:
                say(f"{complaint}; the older {path.name} is used instead")
            self._check_identity(path, content["identity"])
            return Checkpoint(step, tensors, content["notes"])
        if damaged:
            raise PspnsError(f"no checkpoint is whole: {'; '.join(damaged)}; start anew with --overwrite")
        return None

    def remove(self) -> None:
        """Delete all checkpoints; the folder goes too, at the end of the lock, unless it holds other things."""
        with _disk_errors(f"{self._folder}: cannot be removed", "delete it by hand, or choose another --out"):
            for step in self.steps_written():
                self._path(step).unlink()
            self._remove_unfinished()
            self._remove_folder_if_empty()

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step:09}.safetensors"

    def steps_written(self) -> list[int]:
        """The steps of which there is a file, whole or not."""
        if not self._folder.is_dir():
            return []
        # As `_path` writes them: longer numbers are not filled up with zeros.
        kind = re.compile(r"step-([0-9]{9}|[1-9][0-9]{9,})\.safetensors")
        names = [kind.fullmatch(path.name) for path in self._folder.iterdir() if path.is_file()]
        return [int(name[1]) for name in names if name]

    def _remove_all_but(self, newest: int) -> None:
        """Keep this step and the whole one before it; training would have gone on from later ones, were they whole."""
        steps = set(self.steps_written())
        whole_before = [step for step in steps - self._damaged if step < newest]
        for step in steps - {newest, max(whole_before, default=newest)}:
            self._path(step).unlink()

    def _remove_unfinished(self) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def _remove_folder_if_empty(self) -> None:
        with suppress(OSError):
            self._folder.rmdir()

    def _check_identity(self, path: Path, then: dict[str, Any]) -> None:
        changes = list(_changes(then, self._identity))
        if changes:
            listed = "; ".join(changes[:CHANGES_LISTED])
            more = f"; and {len(changes) - CHANGES_LISTED} more" if len(changes) > CHANGES_LISTED else ""
            raise SettingsError(
                f"{path}: belongs to another training ({listed}{more}); "
                "use the same settings, or start anew with --overwrite"
            )


class _DamagedError(Exception):
    """What is wrong with a file."""


def _storable(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values as safetensors takes them: on the CPU, contiguous, no memory shared."""
    stored: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage = plain.untyped_storage().data_ptr()
        stored[name] = plain.clone() if storage in storages else plain
        storages.add(storage)
    return stored


def _seal(path: Path) -> None:
    """Write the digest of the whole file into its header, and all of it to the disk."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        header_length = int.from_bytes(file.read(8), "little")
        place = 8 + file.read(header_length).index(SEAL + BLANK) + len(SEAL)
        file.seek(place)
        file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, step: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Content and tensors; nothing is parsed before the digest is found to fit."""
    try:
        # Not memory-mapped: a bad sector must be an error, not a signal, and the tensors must outlive the file.
        data = path.read_bytes()
    except OSError as error:
        raise _DamagedError(f"cannot be read: {error.strerror}") from error
    place = data.find(SEAL) + len(SEAL)
    digest = hashlib.sha256(memoryview(data)[:place])
    digest.update(BLANK)
    digest.update(memoryview(data)[place + len(BLANK) :])
    if digest.hexdigest().encode() != data[place : place + len(BLANK)]:
        raise _DamagedError("is damaged or cut short (its checksum does not fit)")
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    content: dict[str, Any] = json.loads(header["__metadata__"]["content"])
    if content["format"] != FORMAT:
        raise _DamagedError(f"has format {content['format']}, this version reads {FORMAT}")
    if content["step"] != step:
        raise _DamagedError(f"holds step {content['step']}, not the one it is named after")
    # Copied to where torch puts tensors: on some processors the last bits of a product depend on where in memory its
    # factors begin.
    return content, {name: tensor.clone() for name, tensor in load(data).items()}


def _changes(then: dict[str, Any], now: dict[str, Any], section: str = "") -> Iterator[str]:
    """Every entry that differs, in words."""
    for key in dict.fromkeys((*then, *now)):
        match then.get(key), now.get(key):
            case dict(old), dict(new):
                yield from _changes(old, new, f"{section}{key}.")
            case old, new if old != new and repr(old) != repr(new):  # NaN is not equal to itself
                yield f"{section}{key}: then {_words(old)}, now {_words(new)}"


def _words(value: Any) -> str:
    return "unset" if value is None else SHORT.repr(value)


def _sync_folder(folder: Path) -> None:
    """After this, a file moved into the folder is found there even if the power fails."""
    if sys.platform == "win32":  # where folders cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_errors(trouble: str, advice: str) -> Iterator[None]:
    """What the disk refuses, said so that the user can mend it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise PspnsError(f"{trouble}: {getattr(error, 'strerror', None) or error}; {advice}") from error
