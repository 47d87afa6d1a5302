"""`pspns train`: settings, data, run, folder, table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pspns.api import load_data
from pspns.cli.interruption import Interruption
from pspns.cli.rest import parse_rest
from pspns.cli.screen import say, tell, training_progress, warn
from pspns.cli.tables import show_comparison
from pspns.data.split import GivenSplit
from pspns.dry_run import estimate
from pspns.errors import SettingsError, StoppedError
from pspns.evaluation.protocol import find_protocol
from pspns.options import base_layers, command_line, resolve
from pspns.record import describe_denoiser
from pspns.report.comparison import tables_of
from pspns.report.words import choice, kept
from pspns.resume import has_checkpoint, unfinished_folder
from pspns.run import Run, run
from pspns.run_folder import unfinished_run, write_run
from pspns.settings import Settings


def resolve_settings(options: dict[str, Any], rest: Sequence[str], recipe: str, config: Path | None) -> Settings:
    """Recipe, file and command line, laid over each other and checked."""
    settings = resolve(*base_layers(recipe, config), command_line(options | parse_rest(rest)))
    if settings.data.source is None:
        raise SettingsError("there are no data; say which with --data FILE, FOLDER or NAME")
    return settings


def estimate_and_show(settings: Settings) -> None:
    """Say how long and how large the run would be, without training or writing."""
    for line in estimate(load_data(settings), settings, say=say).words():
        tell(line)


def train_and_show(settings: Settings, out: Path, *, overwrite: bool, resume: bool) -> None:
    """Train as set and show what came of it."""
    with Interruption() as interruption:
        try:
            with unfinished_run(out, resume=resume, overwrite=overwrite) as place:
                finished = _load_and_run(settings, place.checkpoints, interruption, resume=resume)
                write_run(finished, place.folder)
        except KeyboardInterrupt as error:
            raise _stopped(out, interruption) from error
    say(f"wrote {out}")
    if finished.protocol.warning:
        warn(f"protocol {finished.protocol.name}: {finished.protocol.warning}")
    if words := kept(describe_denoiser(finished)):
        tell(words)
    if finished.rankings.test:
        for table in tables_of([out]):
            show_comparison(table, settings.evaluation.ranks_by, settings.evaluation.k)
        if settings.evaluation.selects_by_loss and finished.model.fitted.steps and settings.training.steps is None:
            tell(f"Best steps were chosen by {choice(settings.evaluation.select_by)}.")


def _stopped(out: Path, interruption: Interruption) -> StoppedError:
    checkpoints = unfinished_folder(out)
    if has_checkpoint(checkpoints):
        told = StoppedError(
            f"stopped before the end; what was trained is kept in {checkpoints}: "
            "give the same command with --resume to go on from there"
        )
    else:
        told = StoppedError(f"stopped before the end; nothing was written to {out}")
    told.exit_code = interruption.exit_code
    return told


def _load_and_run(settings: Settings, checkpoints: Path, interruption: Interruption, *, resume: bool) -> Run:
    began = time.perf_counter()
    data = load_data(settings)
    seconds_to_load = time.perf_counter() - began
    for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
        say(fact)
    chooser = {"valid": "validation", "test": "the test"}[find_protocol(settings.run.protocol).select_on]
    with training_progress(settings.evaluation.select_by, chooser) as watch:
        interruptible = interruption.watch_too(watch)
        finished = run(data, settings, checkpoints=checkpoints, resume=resume, watch=interruptible, say=say)
    finished.seconds["load"] = seconds_to_load
    return finished
