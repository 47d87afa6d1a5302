"""Model files: safetensors, Parquet id maps, and a manifest whose checksums are verified before anything is used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pspns.components import find_part
from pspns.data.interactions import Ids
from pspns.data.split import Pairs, Split
from pspns.errors import DataError
from pspns.json_files import read_json, write_json
from pspns.run import Run
from pspns.shapes import Scorer

FORMAT = 1
MANIFEST = "manifest.json"
TENSORS = "model.safetensors"
PAIRS = "pairs.safetensors"
USERS, ITEMS = "users.parquet", "items.parquet"
PARTS = ("train", "valid", "test")


def write_model(run: Run, folder: Path, served_replica: int) -> None:
    """The scorer of every replica, the split it was trained on, and who and what the numbers stand for."""
    folder.mkdir()
    split = run.split
    tensors = {name: tensor.contiguous().cpu() for name, tensor in run.model.fitted.scorer.tensors().items()}
    save_file(tensors, folder / TENSORS)
    pairs = {
        f"{part}_{side}": torch.from_numpy(getattr(getattr(split, part), side))
        for part in PARTS
        for side in ("users", "items")
    }
    save_file(pairs, folder / PAIRS)
    for name, ids in ((USERS, split.user_ids), (ITEMS, split.item_ids)):
        id_column(ids).to_frame("id").write_parquet(folder / name)
    manifest = {
        "format": FORMAT,
        "model": run.model.name,
        "protocol": run.protocol.name,
        "n_users": split.n_users,
        "n_items": split.n_items,
        "made_by": split.made_by,
        "seeds": list(run.settings.run.seeds),
        "served_replica": served_replica,
        "sha256": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    write_json(folder / MANIFEST, manifest)


def read_model(folder: Path, device: torch.device | str) -> tuple[Scorer, int, Split]:
    """The scorer, the replica to serve, and the split."""
    manifest = read_json(folder / MANIFEST)
    _check(manifest, folder)
    pairs = _load_tensors(folder / PAIRS, "cpu")
    train, valid, test = (Pairs(pairs[f"{part}_users"].numpy(), pairs[f"{part}_items"].numpy()) for part in PARTS)
    split = Split(
        train,
        valid,
        test,
        n_users=manifest["n_users"],
        n_items=manifest["n_items"],
        user_ids=_read_ids(folder / USERS),
        item_ids=_read_ids(folder / ITEMS),
        made_by=manifest["made_by"],
    )
    scorer = find_part("models", manifest["model"]).scorer.from_tensors(_load_tensors(folder / TENSORS, device))
    return scorer, manifest["served_replica"], split


def id_column(ids: Ids) -> pl.Series:
    """Ids as a column of the type the data had."""
    kind: Any = {"i": pl.Int64, "u": pl.UInt64, "O": pl.String}[ids.dtype.kind]
    return pl.Series(ids.tolist(), dtype=kind)


def _check(manifest: dict[str, Any], folder: Path) -> None:
    path = folder / MANIFEST
    if manifest.get("format") != FORMAT:
        raise DataError(f"{path}: format is {manifest.get('format')!r}, this version reads {FORMAT}")
    checksums = manifest.get("sha256")
    if not isinstance(checksums, dict) or set(checksums) != {TENSORS, PAIRS, USERS, ITEMS}:
        raise DataError(f"{path}: expected checksums of {TENSORS}, {PAIRS}, {USERS} and {ITEMS}")
    for name, expected in checksums.items():
        if _sha256(folder / name) != expected:
            raise DataError(f"{folder / name}: was changed or damaged since it was written; train again or restore it")


def _read_ids(path: Path) -> Ids:
    column = pl.read_parquet(path)["id"]
    return np.array(column.to_list(), dtype=object) if column.dtype == pl.String else column.to_numpy()


def _load_tensors(path: Path, device: torch.device | str) -> dict[str, torch.Tensor]:
    try:
        return load_file(path, device=str(device))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: is not a readable safetensors file: {error}") from error


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
