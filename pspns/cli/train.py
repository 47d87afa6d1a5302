"""`pspns train`: settings, data, run, folder, table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pspns.api import load_data
from pspns.cli.screen import say, training_progress, warn
from pspns.cli.tables import show_comparison
from pspns.data.split import GivenSplit
from pspns.errors import SettingsError, StoppedError
from pspns.evaluation.protocol import find_protocol
from pspns.options import base_layers, command_line, resolve
from pspns.report.comparison import tables_of
from pspns.run import Run, run
from pspns.run_folder import new_run_folder, write_run
from pspns.settings import Settings


def train_and_show(
    options: dict[str, Any], rest: Sequence[str], recipe: str, config: Path | None, out: Path, *, overwrite: bool
) -> None:
    """Train as the options say and show what came of it."""
    layers = base_layers(recipe, config)
    layers.append(command_line(options | parse_rest(rest)))
    settings = resolve(*layers)
    if settings.data.source is None:
        raise SettingsError("there are no data; say which with --data FILE, FOLDER or NAME")
    try:
        with new_run_folder(out, overwrite=overwrite) as folder:
            finished = _load_and_run(settings)
            write_run(finished, folder)
    except KeyboardInterrupt as error:
        raise StoppedError(f"stopped before the end; nothing was written to {out}") from error
    say(f"wrote {out}")
    if finished.protocol.warning:
        warn(f"protocol {finished.protocol.name}: {finished.protocol.warning}")
    if finished.rankings.test:
        for table in tables_of([out]):
            show_comparison(table, settings.evaluation.select_by, settings.evaluation.k)


def _load_and_run(settings: Settings) -> Run:
    began = time.perf_counter()
    data = load_data(settings)
    seconds_to_load = time.perf_counter() - began
    for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
        say(fact)
    chooser = {"valid": "validation", "test": "the test"}[find_protocol(settings.run.protocol).select_on]
    with training_progress(settings.evaluation.select_by, chooser) as watch:
        finished = run(data, settings, watch=watch, say=say)
    finished.seconds["load"] = seconds_to_load
    return finished


def parse_rest(arguments: Sequence[str]) -> dict[str, str]:
    """`--section.key value` and `--key=value` for every setting that has no option of its own.

    >>> parse_rest(["--training.batch-size", "512", "--l2=0"])
    {'training.batch-size': '512', 'l2': '0'}
    """
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or len(word) == 2:
            raise SettingsError(f"the command line: '{word}' was not expected; options begin with --")
        name, equals, value = word[2:].partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        if name in found:
            raise SettingsError(f"the command line: --{name} is given twice; give it once")
        # A missing value stays empty, to be refused once the name is known to exist.
        found[name] = value
    return found
