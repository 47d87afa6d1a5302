"""The Python face: load, fit, recommend, evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pspns.built_positives import BuiltPositives
from pspns.data.interactions import Interactions
from pspns.data.load import load
from pspns.data.split import GivenSplit, Split
from pspns.data.splits.none import NoSplit
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.memory import MemoryBudget
from pspns.method_options import resolve_methods
from pspns.option_values import convert
from pspns.options import DEFAULT_RECIPE, Layer, base_layers, from_tables, resolve
from pspns.positives._facts import describe_positives
from pspns.recommender import Recommender
from pspns.record import describe_run
from pspns.run import Run, build_world, choose_device, judge, prepare_rankings, run
from pspns.run_folder import open_model, unfinished_run, write_run
from pspns.settings import Settings
from pspns.shapes import Fitted
from pspns.tuning import study as studies
from pspns.tuning.asking import find_optuna
from pspns.tuning.study_folder import study_folder
from pspns.tuning.summary import Tuned

__all__ = ["build_positives", "evaluate", "fit", "load", "open_model", "tune"]

BUILD_SECTIONS = ("data", "positives", "weighting", "run")
"""What shapes positives."""


def fit(
    data: Any = None,
    *,
    recipe: str = DEFAULT_RECIPE,
    config: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    **options: Any,
) -> Recommender:
    """Train and judge a model on anything `load` understands; options are those of the command line.

    With `out` the run is written to that folder. While it lasts, checkpoints lie beside it: if it was stopped, the
    same call with `resume=True` goes on from the last one, or starts at the beginning if there is none.

    >>> import polars as pl
    >>> clicks = pl.DataFrame({"user": ["a", "a", "b", "b", "c", "c"], "item": [1, 2, 2, 3, 1, 3]})
    >>> model = fit(clicks, model="popular", split="none")
    >>> model.recommend("a", k=1)["item"].to_list()
    [3]
    """
    layers = base_layers(recipe, config)
    if data is not None:
        # What is handed over is what the record must name, whatever the file says.
        options["data"] = str(data) if isinstance(data, str | Path) else None
    settings = resolve(*layers, Layer("fit", options))
    if data is None and settings.data.source is None:
        raise SettingsError("there are no data; give fit a frame, a matrix, a path or a data set's name")
    if out is None:
        if resume:
            raise SettingsError("without out there is no checkpoint to resume from; give fit the out of the first call")
        finished = run(load_data(settings, data), settings)
    else:
        with unfinished_run(Path(out), resume=resume, overwrite=overwrite) as place:
            finished = run(load_data(settings, data), settings, checkpoints=place.checkpoints, resume=resume)
            write_run(finished, place.folder)
    result = describe_run(finished)
    return Recommender(
        finished.model.fitted.scorer, result["served_replica"], finished.split, result, finished.positives
    )


def tune(
    data: Any = None,
    *,
    methods: str | Sequence[str],
    trials: int,
    out: str | Path,
    at_once: int = 4,
    seed: int = 0,
    search: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    **options: Any,
) -> Tuned:
    """Try as many settings of each method, judged on validation alone, and write every trial to the folder `out`.

    A method is named as on the command line, `"plain"` or `"paper+dns"`; `search` says what is tried of a setting,
    `{"l2": [1e-5, 1e-4]}`, `{"l2": 1e-4}` or `{"l2": Span(low=1e-6, high=1e-3, log=True)}`, instead of what its part
    proposes. Options are those of `fit`, and hold for every trial.
    """
    find_optuna()
    if data is not None:
        options["data"] = str(data) if isinstance(data, str | Path) else None
    bases, spaces = resolve_methods(methods, Layer("tune", options), config, search or {})
    counts = {"trials": trials, "at_once": at_once, "seed": seed}
    study = studies.Study(bases, spaces, **{name: convert(int, count, name) for name, count in counts.items()})
    settings = study.common
    if data is None and settings.data.source is None:
        raise SettingsError("there are no data; give tune a frame, a matrix, a path or a data set's name")
    with study_folder(Path(out), resume=resume, overwrite=overwrite) as folder:
        return studies.tune(load_data(settings, data), study, folder)


def load_data(settings: Settings, data: Any = None) -> Interactions | GivenSplit:
    """What is handed over, or else what `[data]` names, read as `[data]` says."""
    choose_device(settings.run.device)  # better to hear of one that is not there before the data are read
    reading = settings.data
    return load(
        reading.source if data is None else data,
        format=reading.format,
        columns=reading.columns,
        header=reading.header,
        separator=reading.separator,
        encoding=reading.encoding,
        time_format=reading.time_format,
        min_rating=reading.min_rating,
        min_user_pairs=reading.min_user_pairs,
        min_item_pairs=reading.min_item_pairs,
        core=reading.core,
        folder=reading.folder,
    )


def build_positives(
    data: Any = None, *, recipe: str = "paper", config: str | Path | None = None, **options: Any
) -> BuiltPositives:
    """Positives for any trainer, from anything `load` understands.

    Of a folder with a given split its train part is used, and under the protocol `published`, which needs one, its
    held-out pairs are dropped; of anything else every row is used.

    >>> import polars as pl
    >>> clicks = pl.DataFrame({"user": ["a", "a", "b", "b", "c", "c"], "item": [1, 2, 2, 3, 1, 3]})
    >>> built = build_positives(clicks, rank=1, copies=2)
    >>> built.matrix().shape, built.frame().columns
    ((3, 3), ['user', 'item', 'copies', 'weight', 'observed', 'global'])
    """
    layers = base_layers(recipe, config)
    if data is not None:
        options["data"] = str(data) if isinstance(data, str | Path) else None
    settings = resolve_for_build(layers, Layer("build_positives", options))
    if data is None and settings.data.source is None:
        raise SettingsError("there are no data; give build_positives a frame, a matrix, a path or a data set's name")
    return build_from(split_for_build(load_data(settings, data), settings), settings)


def resolve_for_build(layers: Sequence[Layer], asked: Layer) -> Settings:
    """Recipe and file may speak of anything; what is asked for on the spot must have a part in building positives."""
    before, settings = resolve(*layers).as_dict(), resolve(*layers, asked)
    for section, values in settings.as_dict().items():
        if section not in BUILD_SECTIONS and values != before.get(section):
            raise SettingsError(
                f"{asked.origin}: [{section}] has no part in building positives; "
                f"expected settings of {', '.join(BUILD_SECTIONS)}"
            )
    return settings


def check_no_noise(settings: Settings) -> None:
    """Noise is for measuring what a training makes of it; pairs for another trainer would only be wrong."""
    if settings.data.noise:
        raise SettingsError(
            f"noise is added for `pspns train` alone, not to what positives are built from, got "
            f"{settings.data.noise:g}; leave [data] noise out"
        )


def split_for_build(data: Interactions | GivenSplit, settings: Settings) -> Split:
    """A folder's parts as they are; of anything else every row is train."""
    protocol = find_protocol(settings.run.protocol)
    check_no_noise(settings)
    if settings.split is not None:
        raise SettingsError(
            "positives are built from every row of a file and from the train part of a folder, never from a split made "
            "on the way; leave [split] out, or give a folder with train, valid and test files"
        )
    if isinstance(data, GivenSplit):
        return Split.from_parts(data.interactions, data.parts, data.source)
    if protocol.drop_held_out:
        raise SettingsError(
            f"protocol {protocol.name} drops held-out pairs, so it needs a folder with train, valid and test files"
        )
    return Split.from_parts(data, NoSplit().assign(data, np.random.default_rng(0)), "every row is train")


def build_from(split: Split, settings: Settings) -> BuiltPositives:
    """Positives of the train part under the settings' protocol."""
    if settings.run.threads:
        torch.set_num_threads(settings.run.threads)
    memory = MemoryBudget(choose_device(settings.run.device), settings.run.memory_gib)
    world = build_world(split, settings, find_protocol(settings.run.protocol), memory)
    return BuiltPositives(
        pairs=world.pairs,
        user_weights=world.user_weights,
        user_ids=split.user_ids[: split.n_users],
        item_ids=split.item_ids[: split.n_items],
        facts=describe_positives(world, settings.positives),
    )


def evaluate(model: Recommender, k: int | Sequence[int] | str | None = None) -> dict[str, Any]:
    """Judge a model again on its own split, under its own protocol, at other list lengths.

    The answer has the form of `result.json`.
    """
    before = model.result
    # Only what judging needs: naming a part of another package in a result must not import it.
    layers = [from_tables("result.json", {section: before["settings"][section] for section in ("run", "evaluation")})]
    if k is not None:
        layers.append(Layer("evaluate", {"k": k}))
    settings = resolve(*layers)
    protocol = find_protocol(settings.run.protocol)
    memory = MemoryBudget(model.device, settings.run.memory_gib)
    rankings = prepare_rankings(model.split, settings, protocol, model.positives, memory)
    fitted = Fitted(model.scorer, before["chosen_on_validation"], before["steps"], before["best_step"])
    judged = judge(before["model"], fitted, rankings)
    run_again = Run(
        settings=settings,
        protocol=protocol,
        split=model.split,
        positives=model.positives,
        positives_facts=before["positives"],
        rankings=rankings,
        model=judged,
        baselines=[],
        left_out={},
        device=model.device,
        replicas_in_loop=before.get("replicas_in_loop", len(before["steps"])),
        seconds={},
    )
    found = describe_run(run_again)
    found["settings"] = {**before["settings"], "evaluation": found["settings"]["evaluation"]}
    # Of what was added to train and what a denoiser did, only the run's own record tells.
    found |= {section: before[section] for section in ("data", "noise", "denoiser") if section in before}
    return found
