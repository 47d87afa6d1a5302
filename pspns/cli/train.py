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
from pspns.errors import SettingsError
from pspns.options import Layer, read_settings_file, recipe, resolve
from pspns.report.comparison import tables_of
from pspns.run import run
from pspns.run_folder import new_run_folder
from pspns.training.loop import Watch
from pspns.training.stopping import Evaluation

COMMAND_LINE = "the command line"


def train_and_show(
    options: dict[str, Any], rest: Sequence[str], recipe_name: str, config: Path | None, out: Path, *, overwrite: bool
) -> None:
    """Train as the options say and show what came of it."""
    layers = [recipe(recipe_name)]
    if config is not None:
        layers.append(read_settings_file(config))
    layers.append(Layer(COMMAND_LINE, options | parse_rest(rest)))
    settings = resolve(*layers)
    if settings.data.source is None:
        raise SettingsError("there are no data; say which with --data FILE, FOLDER or NAME")

    with new_run_folder(out, overwrite=overwrite) as folder:
        began = time.perf_counter()
        data = load_data(settings)
        seconds_to_load = time.perf_counter() - began
        for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
            say(fact)
        with training_progress(settings.evaluation.select_by) as show:

            def watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
                show(step, last_step, evaluation)
                if evaluation:
                    folder.log(evaluation)

            watching: Watch = watch
            finished = run(data, settings, watch=watching, say=say)
        finished.seconds["load"] = seconds_to_load
        folder.write(finished)
    say(f"wrote {out}")
    if finished.protocol.warning:
        warn(f"protocol {finished.protocol.name}: {finished.protocol.warning}")
    if finished.rankings.test:
        for table in tables_of([out]):
            show_comparison(table, settings.evaluation.select_by, settings.evaluation.k)


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
            raise SettingsError(f"{COMMAND_LINE}: '{word}' was not expected; options begin with --")
        name, equals, value = word[2:].partition("=")
        if not equals:
            # The name first: of a misspelt option nobody wants to hear that its value is missing.
            value = rest.pop(0) if rest and not rest[0].startswith("--") else ""
            if value == "":
                raise SettingsError(f"{COMMAND_LINE}: option --{name} needs a value, or does not exist")
        if name in found:
            raise SettingsError(f"{COMMAND_LINE}: option --{name} is given twice")
        found[name] = value
    return found
