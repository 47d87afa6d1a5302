"""Several processes at the same records: each takes what no other is at, and what a killed one had is free again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pspns.errors import PspnsError
from pspns.lock_file import HeldError, held

TAKEN = "taken"
"""The folder of what is taken: a file each."""
MACHINE = "machine"
"""Shared by all who are at something; taken alone by who measures seconds. No record has this name."""


@dataclass(frozen=True)
class Sharing:
    unfinished: Path | None = None
    """Where all of them keep what is not finished. Unset: there is nobody else."""

    @contextmanager
    def taken(self, names: Sequence[str], *, alone: bool = False) -> Iterator[list[str]]:
        """Those of the names that no other process has, which are ours while the block runs. `alone`: all or none, and
        while the block runs nobody has anything else, so that seconds are what they would be without company."""
        if self.unfinished is None:
            yield list(names)
            return
        folder = self.unfinished / TAKEN
        with ExitStack() as until_the_end:
            try:
                # Not there yet, then empty at the end: nothing was written.
                not_there = [one for one in self.unfinished.parents if not one.exists()]
                until_the_end.callback(_remove_what_is_empty, [folder, self.unfinished, *not_there])
                ours = _take(folder, names, until_the_end, alone=alone)
            except OSError as error:
                raise PspnsError(
                    f"{folder}: cannot be used to share the work: {error.strerror or error}; make it a folder that can "
                    "be written to, or choose another --out"
                ) from error
            yield ours


def _take(folder: Path, names: Sequence[str], until_the_end: ExitStack, *, alone: bool) -> list[str]:
    ours: list[str] = []
    with suppress(HeldError):
        until_the_end.enter_context(held(folder / MACHINE, shared=not alone))
        for name in names:
            with suppress(HeldError):
                until_the_end.enter_context(held(folder / name))
                ours.append(name)
    return ours


def _remove_what_is_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):  # others have something in it
        for folder in folders:
            folder.rmdir()
