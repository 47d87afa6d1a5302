"""`pspns tune`: methods, data, trials, folder, table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pspns.api import load_data
from pspns.cli.interruption import Interruption
from pspns.cli.rest import parse_rest
from pspns.cli.screen import best_alone, say, show_table, tell, training_progress, warn
from pspns.data.split import GivenSplit
from pspns.errors import SettingsError, StoppedError
from pspns.method_options import read_search, resolve_methods
from pspns.options import command_line
from pspns.tuning.asking import find_optuna
from pspns.tuning.study import Study, tune
from pspns.tuning.study_folder import STUDY, StudyFolder, best_file, study_folder
from pspns.tuning.summary import Tuned
from pspns.tuning.trials import values_in_words


def resolve_study(
    methods: str,
    options: dict[str, Any],
    rest: Sequence[str],
    search: Sequence[str],
    config: Path | None,
    *,
    trials: int,
    at_once: int,
    seed: int,
) -> Study:
    """What is to be tuned, checked."""
    find_optuna()
    given = command_line(options | parse_rest(rest))
    bases, spaces = resolve_methods(methods, given, config, read_search(search))
    study = Study(bases, spaces, trials, at_once, seed)
    if study.common.data.source is None:
        raise SettingsError("there are no data; say which with --data FILE, FOLDER or NAME")
    return study


def tune_and_show(study: Study, out: Path, *, overwrite: bool, resume: bool) -> None:
    """Try what is to be tried and show what came of it."""
    with Interruption() as interruption:
        try:
            with study_folder(out, resume=resume, overwrite=overwrite) as folder:
                tuned = _load_and_tune(study, folder, interruption)
        except KeyboardInterrupt as error:
            raise _stopped(out, interruption) from error
    say(f"wrote {out}")
    if tuned.protocol.warning:
        warn(f"protocol {tuned.protocol.name}: {tuned.protocol.warning}")
    _show(tuned)


def _load_and_tune(study: Study, folder: StudyFolder, interruption: Interruption) -> Tuned:
    data = load_data(study.common)
    for fact in (data.interactions if isinstance(data, GivenSplit) else data).facts:
        say(fact)
    with training_progress(study.select_by, "validation, the best of the loop,") as watch:
        return tune(data, study, folder, watch=interruption.watch_too(best_alone(watch, study.select_by)), say=say)


def _stopped(out: Path, interruption: Interruption) -> StoppedError:
    if STUDY.is_kind_of(out):
        told = StoppedError(
            f"stopped before the end; the trials so far are kept in {out}: give the same command with --resume to go on"
        )
    else:
        told = StoppedError(f"stopped before the end; nothing was written to {out}")
    told.exit_code = interruption.exit_code
    return told


def _show(tuned: Tuned) -> None:
    """Methods, best first, and what to do next."""
    summary = tuned.summary()["methods"]
    rows = []
    for method in (*tuned.best, *(method for method in tuned.trials if method not in tuned.best)):
        found = summary[method]
        figures = [f"{100 * figure:.2f}" for figure in _figures(found)] if method in tuned.best else ["–"] * 3
        values = values_in_words(found["values"]) if method in tuned.best else "all trials failed"
        rows.append([method, values, str(found["trials"]), str(found["failed"]), *figures])
    columns = ["method", "best settings", "trials", "failed", "best", "median", "lowest"]
    show_table(
        f"{tuned.select_by} on validation, protocol {tuned.protocol.name}, in percent, mean over seeds",
        columns,
        rows,
        text_columns=2,
    )
    for method, trials in tuned.trials.items():
        if method not in tuned.best:
            warn(f"method {method}: no trial could be trained, the last because: {trials[-1].failed}")
    if tuned.best:
        winner = best_file(tuned.folder, next(iter(tuned.best)))
        # Where held-out pairs shape what is built, more than validation was looked at; the warning says so.
        untouched = "" if tuned.protocol.drop_held_out else "Nothing of the test was looked at. "
        tell(f"{untouched}To train the winner and judge it on the test: pspns train --config {winner} --out RUN")


def _figures(found: dict[str, Any]) -> tuple[float, float, float]:
    return found["best"]["mean"], found["median"], found["lowest"]
