"""Going on with a run that was stopped: where its checkpoints lie, whose they are, and who may use them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

import pspns
from pspns.data.split import Split
from pspns.errors import SettingsError
from pspns.settings import Settings
from pspns.shapes import World
from pspns.training.checkpoint import Checkpoints
from pspns.training.loop import Saving

# A setting is left out of a training's identity if a training that goes on with another value of it ends as if it had
# had that value all along. Where the data lay says nothing of what was in them, which the fingerprint tells. Threads
# and memory change no bit (docs/decisions/0013). Baselines and the size of a group of users matter once training is
# over. Of the device see `_identity`. All others shape either the training or its history.
WITHOUT_EFFECT = {
    "data": {"source", "folder"},
    "evaluation": {"inactive"},
    "run": {"device", "threads", "memory_gib", "baselines", "checkpoint_seconds"},
}


def unfinished_folder(target: Path) -> Path:
    """Where the checkpoints of what is to be at `target` lie."""
    target = target.absolute()
    return target.parent / f"{target.name}.unfinished"


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """The folder for the checkpoints of a run, closed to other processes; it goes if the block ends well.

    Write `target` inside the block: whatever happens, there is either a checkpoint or the result.
    """
    folder = unfinished_folder(target)
    checkpoints = Checkpoints(folder, {})  # nothing is read or written here, so whose they are does not matter
    made: list[Path] = []
    try:
        try:
            made += [parent for parent in folder.parents if not parent.exists()]
        except OSError as error:
            raise SettingsError(f"cannot write to {folder.parent}: {error.strerror}; choose another --out") from error
        with checkpoints.lock():
            yield folder
            checkpoints.remove()
    finally:
        for parent in made:
            with suppress(OSError):  # it holds something by now, a checkpoint for one
                parent.rmdir()


def has_checkpoint(folder: Path) -> bool:
    return bool(Checkpoints(folder, {}).steps_written())


def make_way(folder: Path, *, overwrite: bool = False) -> None:
    """Before a training from the beginning: checkpoints of an earlier one go if asked for, or else stand in the way."""
    if overwrite:
        Checkpoints(folder, {}).remove()
    if has_checkpoint(folder):
        raise SettingsError(
            f"{folder} holds checkpoints of a run that was stopped; say --resume to go on with it, or --overwrite to "
            "start anew"
        )


def open_checkpoints(
    folder: Path,
    members: Sequence[Settings],
    split: Split,
    worlds: Sequence[World],
    *,
    resume: bool,
    say: Callable[[str], None],
) -> Saving:
    """The checkpoints of this training and no other, and the last of them if it is to go on from there."""
    checkpoints = Checkpoints(folder, _identity(members, split, worlds))
    if not resume:
        make_way(folder)
    found = checkpoints.latest(say) if resume else None
    if found:
        say(f"going on after step {found.step:,}, from {folder}")
    elif resume:
        say(f"there is no checkpoint in {folder}; training starts at the beginning")
    return Saving(checkpoints, members[0].run.checkpoint_seconds, found)


def _identity(members: Sequence[Settings], split: Split, worlds: Sequence[World]) -> dict[str, Any]:
    """All that decides how a training goes on: what was set first, because that is what a user can mend."""
    trained = [_settings_with_effect(settings) for settings in members]
    parts = {part: len(getattr(split, part)) for part in ("train", "valid", "test")}
    return {
        **(trained[0] if len(trained) == 1 else {f"member {number}": one for number, one in enumerate(trained, 1)}),
        # As found, not as set: a record names one device, and half a training on another would make it untrue.
        "device": worlds[0].device.type,
        "versions": {"pspns": pspns.__version__, "torch": torch.__version__},
        "parts": {"fingerprint": split.fingerprint(), **parts},
        # They are built anew, perhaps on another machine, where the last bits of an SVD differ.
        "pairs": _fingerprint(worlds),
    }


def _settings_with_effect(settings: Settings) -> dict[str, Any]:
    return {
        "split": None,  # which is left out where it is unset
        **{
            section: {key: value for key, value in entries.items() if key not in WITHOUT_EFFECT.get(section, ())}
            for section, entries in settings.as_dict().items()
        },
    }


def _fingerprint(worlds: Sequence[World]) -> str:
    """Of the pairs that are trained on, and of their weights."""
    digest = hashlib.sha256()
    for world in worlds:
        pairs = world.pairs
        for values in (pairs.users, pairs.items, pairs.copies, pairs.pair_weights, world.user_weights):
            digest.update(values.tobytes())
    return digest.hexdigest()
