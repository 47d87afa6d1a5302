"""Run folders: results, per-user figures and the model, written whole or not at all."""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from safetensors import SafetensorError

from pspns.data.split import Pairs
from pspns.errors import DataError, PspnsError, SettingsError
from pspns.evaluation.ranking import FullRanking, Ranked
from pspns.json_files import read_json, write_json
from pspns.model_files import NOISE, PAIR_WEIGHTS, id_column, read_model, write_model
from pspns.new_folder import FolderKind, new_folder
from pspns.parquet_files import read_table, write_table
from pspns.recommender import Recommender
from pspns.record import describe_run
from pspns.resume import has_checkpoint, make_way, unfinished, unfinished_folder
from pspns.run import Judged, Run, choose_device

RESULT = "result.json"
METRICS = "metrics.jsonl"
PER_USER = "per_user.parquet"
MODEL = "model"
RUN = FolderKind("run", RESULT, frozenset({METRICS, PER_USER, NOISE, PAIR_WEIGHTS, MODEL}))
RESULT_KINDS: dict[str, type] = {
    "protocol": dict,
    "model": str,
    "data": dict,
    "evaluated": dict,
    "seeds": list,
    "settings": dict,
    "baselines": dict,
    "valid": dict,
    "test": dict,
    "test_other_masks": dict,
    "chosen_on_validation": dict,
    "steps": list,
    "best_step": list,
    "positives": dict,
}
"""What must be in a result for it to be one."""


def new_run_folder(target: Path, *, overwrite: bool = False) -> AbstractContextManager[Path]:
    """A folder to fill, which moves to `target` if the block ends well and leaves nothing behind if it does not."""
    return new_folder(target, RUN, overwrite=overwrite)


@dataclasses.dataclass(frozen=True)
class UnfinishedRun:
    """Where a run puts what it has so far."""

    folder: Path  # to fill; see `new_run_folder`
    checkpoints: Path  # beside the target


@contextmanager
def unfinished_run(target: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[UnfinishedRun]:
    """A new run's folder, with checkpoints beside it until it is in its place; no other process may use either."""
    if resume and not overwrite:
        _refuse_finished(target)
    with unfinished(target) as checkpoints:
        _remove_debris(target)
        with new_run_folder(target, overwrite=overwrite) as folder:
            if not resume:
                make_way(checkpoints, overwrite=overwrite)
            yield UnfinishedRun(folder, checkpoints)


def _refuse_finished(target: Path) -> None:
    if not RUN.is_kind_of(target):
        return
    checkpoints = unfinished_folder(target)
    if has_checkpoint(checkpoints):
        advice = f"to go on with the later run in {checkpoints} and let it replace this one, say --overwrite too"
    else:
        advice = "leave --resume out and say --overwrite to run again"
    raise SettingsError(f"{target} is a finished run, so there is nothing to go on with; {advice}")


def _remove_debris(target: Path) -> None:
    """What a killed process left of the folder it was filling; the checkpoints are locked, so no living one has any."""
    target = target.absolute()
    for folder in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}"):
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {RUN.record, *RUN.others}:
            shutil.rmtree(folder, ignore_errors=True)


def write_run(run: Run, folder: Path) -> None:
    """Everything that is known once a run is over, into an empty folder."""
    result = describe_run(run)
    try:
        write_json(folder / RESULT, result)
        _write_history(run, folder / METRICS)
        write_table(_per_user_frame(run).to_arrow(), folder / PER_USER)
        if len(run.split.noise):
            write_table(_pair_frame(run, run.split.noise).to_arrow(), folder / NOISE)
        if run.model.fitted.pair_weights:
            write_table(_pair_weights_frame(run).to_arrow(), folder / PAIR_WEIGHTS)
        write_model(run, folder / MODEL, result["served_replica"])
    except (OSError, SafetensorError, pl.exceptions.PolarsError, pa.ArrowException) as error:
        raise PspnsError(f"cannot write the files of the run: {error}") from error


def read_result(folder: Path) -> dict[str, Any]:
    """`result.json` of a run's folder."""
    if not RUN.is_kind_of(folder):
        raise DataError(f"{folder} is not a run's folder: it has no {RESULT}; give a folder that `pspns train` wrote")
    result = read_json(folder / RESULT)
    for key, kind in RESULT_KINDS.items():
        if key not in result:
            raise DataError(f"{folder / RESULT}: has no '{key}'; give a folder that `pspns train` wrote")
        if not isinstance(result[key], kind):
            found = type(result[key]).__name__
            raise DataError(f"{folder / RESULT}: '{key}' is a {found}, expected a {kind.__name__}; train again")
    if not isinstance(result["data"].get("facts"), list):
        raise DataError(f"{folder / RESULT}: 'data' has no list of facts; train again")
    return result


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`."""
    path = folder / METRICS
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def read_per_user(folder: Path) -> pl.DataFrame:
    """`per_user.parquet` of a run's folder."""
    path = folder / PER_USER
    try:
        return cast(pl.DataFrame, pl.from_arrow(read_table(path)))
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def open_model(folder: str | Path, device: torch.device | str = "cpu") -> Recommender:
    """The model of a run's folder, every byte checked against its manifest."""
    chosen = choose_device(str(device))
    result = read_result(Path(folder))
    scorer, replica, split, positives = read_model(Path(folder) / MODEL, chosen)
    split = dataclasses.replace(split, facts=tuple(result["data"]["facts"]))
    return Recommender(scorer, replica, split, result, positives)


def _pair_frame(run: Run, pairs: Pairs) -> pl.DataFrame:
    split = run.split
    return pl.DataFrame(
        {"user": id_column(split.user_ids[pairs.users]), "item": id_column(split.item_ids[pairs.items])}
    )


def _pair_weights_frame(run: Run) -> pl.DataFrame:
    """One row for each pair of the loss: what the denoiser left of it, and whether it is false where that is known."""
    weights = {
        f"weight_seed_{seed}": own.astype(np.float32)
        for seed, own in zip(run.settings.run.seeds, run.model.fitted.pair_weights, strict=True)
    }
    known = {"is_false": run.split.are_noise(run.positives)} if len(run.split.noise) else {}
    return _pair_frame(run, run.positives).with_columns(**weights, **known)


def _per_user_frame(run: Run) -> pl.DataFrame:
    """One row for each model, seed, part, mask and user with held-out items."""
    frames = []
    for judged in (run.model, *run.baselines):
        for part, mask, ranking, ranked in _judgements(run, judged):
            frames += [
                _per_user_rows(run, judged.name, replica, part, mask, ranking, figures)
                for replica, figures in enumerate(ranked)
            ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_schema(run))


def _judgements(run: Run, judged: Judged) -> Iterator[tuple[str, str, FullRanking, list[Ranked]]]:
    if run.rankings.valid:
        yield "valid", str(run.protocol.mask_valid), run.rankings.valid, judged.valid
    if run.rankings.test:
        yield "test", str(run.protocol.mask_test), run.rankings.test, judged.test
    for mask, ranking in run.rankings.test_other_masks.items():
        yield "test", mask, ranking, judged.test_other_masks[mask]


def _per_user_rows(
    run: Run, model: str, replica: int, part: str, mask: str, ranking: FullRanking, figures: Ranked
) -> pl.DataFrame:
    n_rows = len(ranking.users)
    train_counts = np.bincount(run.split.clean_train.users, minlength=len(run.split.user_ids))
    ids = run.split.user_ids[ranking.users]
    has_loop = bool(run.model.fitted.steps) and model == run.model.name
    return pl.DataFrame(
        {
            "model": pl.repeat(model, n_rows, eager=True),
            # A model without a training loop has no seed.
            "seed": pl.repeat(
                run.settings.run.seeds[replica] if has_loop else None, n_rows, eager=True, dtype=pl.Int64
            ),
            "part": pl.repeat(part, n_rows, eager=True),
            "mask": pl.repeat(mask, n_rows, eager=True),
            "user": id_column(ids),
            "train_pairs": train_counts[ranking.users],
            "held_out_pairs": ranking.n_held_out,
            **figures.per_user,
        }
    )


def _schema(run: Run) -> dict[str, Any]:
    """The columns that say whose figures a row holds."""
    return {
        "model": pl.String,
        "seed": pl.Int64,
        "part": pl.String,
        "mask": pl.String,
        "user": id_column(run.split.user_ids).dtype,
        "train_pairs": pl.Int64,
        "held_out_pairs": pl.Int64,
    }


def _write_history(run: Run, path: Path) -> None:
    """One line of JSON for each evaluation during training and each replica evaluated."""
    with path.open("w", encoding="utf-8") as file:
        for evaluation in run.model.fitted.history:
            for seed, metrics in evaluation.metrics.items():
                line = {
                    "step": evaluation.step,
                    "epoch": evaluation.epochs[seed],
                    "seconds": round(evaluation.seconds, 3),
                    "seed": seed,
                    "loss": evaluation.losses[seed],
                    "part": run.protocol.select_on,  # the one that chooses, and so was looked at
                    "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
                    **({"kept": evaluation.kept[seed]} if seed in evaluation.kept else {}),
                }
                file.write(json.dumps(line, allow_nan=False) + "\n")
