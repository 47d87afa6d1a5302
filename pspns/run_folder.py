"""Run folders: results, per-user figures and the model, written whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from pspns.errors import DataError, SettingsError
from pspns.evaluation.ranking import FullRanking, Ranked
from pspns.json_files import read_json, write_json
from pspns.model_files import id_column, read_model, write_model
from pspns.recommender import Recommender
from pspns.record import describe_run
from pspns.run import Judged, Run
from pspns.training.stopping import Evaluation

RESULT = "result.json"
METRICS = "metrics.jsonl"
PER_USER = "per_user.parquet"
MODEL = "model"


class RunFolder:
    """A folder in the making; nothing is at its final place before everything is."""

    def __init__(self, path: Path):
        self._path = path

    def log(self, evaluation: Evaluation) -> None:
        """One line for each replica that was evaluated."""
        with (self._path / METRICS).open("a", encoding="utf-8") as file:
            for seed, metrics in evaluation.metrics.items():
                line = {
                    "step": evaluation.step,
                    "epoch": evaluation.epoch,
                    "seconds": round(evaluation.seconds, 3),
                    "seed": seed,
                    "loss": evaluation.losses[seed],
                    "valid": metrics,
                }
                file.write(json.dumps(line) + "\n")

    def write(self, run: Run) -> None:
        """Everything that is known once the run is over."""
        (self._path / METRICS).touch()
        result = describe_run(run)
        write_json(self._path / RESULT, result)
        _per_user_frame(run).write_parquet(self._path / PER_USER)
        write_model(run, self._path / MODEL, result["served_replica"])


@contextmanager
def new_run_folder(target: Path, *, overwrite: bool = False) -> Iterator[RunFolder]:
    """A folder that appears at `target` if the block ends well, and leaves nothing behind if it does not."""
    target = target.absolute()
    if target.exists() and not overwrite:
        raise SettingsError(f"{target} exists already; choose another --out, or say --overwrite")
    if target.exists() and not _is_run(target):
        raise SettingsError(
            f"{target} exists and is not a run's folder, so it is not overwritten; choose another --out"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise SettingsError(f"cannot write to {target.parent}: {error.strerror}; choose another --out") from error
    try:
        yield RunFolder(partial)
        partial.chmod(0o755)
        if target.exists():
            replaced = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
            target.replace(replaced)
            partial.replace(target)
            shutil.rmtree(replaced)
        else:
            partial.replace(target)
    except OSError as error:
        raise SettingsError(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_run(run: Run, target: Path, *, overwrite: bool = False) -> None:
    """The whole folder of a finished run."""
    with new_run_folder(target, overwrite=overwrite) as folder:
        for evaluation in run.model.fitted.history:
            folder.log(evaluation)
        folder.write(run)


def read_result(folder: Path) -> dict[str, Any]:
    """`result.json` of a run's folder."""
    if not _is_run(folder):
        raise DataError(f"{folder} is not a run's folder: it has no {RESULT}; give a folder that `pspns train` wrote")
    return read_json(folder / RESULT)


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
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def open_model(folder: str | Path, device: torch.device | str = "cpu") -> Recommender:
    """The model of a run's folder, every byte checked against its manifest."""
    result = read_result(Path(folder))
    scorer, replica, split = read_model(Path(folder) / MODEL, device)
    return Recommender(scorer, replica, split, result)


def _per_user_frame(run: Run) -> pl.DataFrame:
    """One row for each model, seed, part, mask and user with held-out items."""
    frames = []
    for judged in (run.model, *run.baselines):
        for part, mask, ranking, ranked in _judgements(run, judged):
            frames += [
                _per_user_rows(run, judged.name, replica, part, mask, ranking, figures)
                for replica, figures in enumerate(ranked)
            ]
    return pl.concat(frames) if frames else pl.DataFrame(schema={"model": pl.String})


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
    train_counts = np.bincount(run.split.train.users, minlength=len(run.split.user_ids))
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


def _is_run(folder: Path) -> bool:
    return (folder / RESULT).is_file()
