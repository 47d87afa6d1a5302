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

from pspns.components import find_part, part_names
from pspns.data.interactions import Ids
from pspns.data.split import Pairs, Split
from pspns.errors import DataError, SettingsError
from pspns.json_files import read_json, write_json
from pspns.run import Run
from pspns.shapes import Scorer

FORMAT = 1
MANIFEST = "manifest.json"
TENSORS = "model.safetensors"
PAIRS = "pairs.safetensors"
USERS, ITEMS = "users.parquet", "items.parquet"
PARTS = ("train", "valid", "test", "positives")


def write_model(run: Run, folder: Path, served_replica: int) -> None:
    """The scorer of every replica, the split it was trained on, and who and what the numbers stand for."""
    folder.mkdir()
    split = run.split
    tensors = {name: tensor.contiguous().cpu() for name, tensor in run.model.fitted.scorer.tensors().items()}
    save_file(tensors, folder / TENSORS)
    parts = dict(zip(PARTS, (split.train, split.valid, split.test, run.positives), strict=True))
    # Cloned: train and positives may be the same arrays, and safetensors refuses to write shared memory.
    pairs = {
        f"{part}_{side}": torch.from_numpy(getattr(parts[part], side)).clone()
        for part in PARTS
        for side in ("users", "items")
    }
    save_file(pairs, folder / PAIRS)
    for name, ids in ((USERS, split.user_ids), (ITEMS, split.item_ids)):
        id_column(ids).to_frame("id").write_parquet(folder / name)
    for name in (TENSORS, PAIRS):
        # safetensors lets only the owner read; who may is for the folder and the umask to say.
        (folder / name).chmod((folder / USERS).stat().st_mode)
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


def read_model(folder: Path, device: torch.device | str) -> tuple[Scorer, int, Split, Pairs]:
    """The scorer, the replica to serve, the split, and the pairs the loss was summed over."""
    manifest = _read_manifest(folder)
    split, positives = _read_split(folder, manifest)
    return _read_scorer(folder, manifest, split, device), manifest["served_replica"], split, positives


def id_column(ids: Ids) -> pl.Series:
    """Ids as a column of the type the data had."""
    kind: Any = {"i": pl.Int64, "u": pl.UInt64, "O": pl.String}[ids.dtype.kind]
    return pl.Series(ids.tolist() if ids.dtype == object else ids, dtype=kind)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once every other file is what it says."""
    path = folder / MANIFEST
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise DataError(f"{path}: format is {manifest.get('format')!r}, this version reads {FORMAT}")
    for key, kind in {"model": str, "made_by": str, "n_users": int, "n_items": int, "served_replica": int}.items():
        if type(manifest.get(key)) is not kind:
            raise DataError(f"{path}: {key} is {manifest.get(key)!r}, expected {kind.__name__}")
    checksums = manifest.get("sha256")
    if not isinstance(checksums, dict) or set(checksums) != {TENSORS, PAIRS, USERS, ITEMS}:
        raise DataError(f"{path}: expected checksums of {TENSORS}, {PAIRS}, {USERS} and {ITEMS}")
    for name, expected in checksums.items():
        if _sha256(folder / name) != expected:
            raise DataError(f"{folder / name}: was changed or damaged since it was written; train again or restore it")
    return manifest


def _read_split(folder: Path, manifest: dict[str, Any]) -> tuple[Split, Pairs]:
    tensors = _load_tensors(folder / PAIRS, "cpu")
    user_ids, item_ids = _read_ids(folder / USERS), _read_ids(folder / ITEMS)
    train, valid, test, positives = (_read_pairs(folder / PAIRS, tensors, part, user_ids, item_ids) for part in PARTS)
    for key, places in (("n_users", train.users), ("n_items", train.items)):
        # Whoever occurs in train has a number below all others: the highest one there tells how many they are.
        n_found = int(places.max(initial=-1)) + 1
        if manifest[key] != n_found:
            raise DataError(f"{folder / MANIFEST}: {key} is {manifest[key]}, but train has {n_found}")
    split = Split(
        train,
        valid,
        test,
        n_users=manifest["n_users"],
        n_items=manifest["n_items"],
        user_ids=user_ids,
        item_ids=item_ids,
        made_by=manifest["made_by"],
    )
    return split, positives


def _read_pairs(path: Path, tensors: dict[str, torch.Tensor], part: str, user_ids: Ids, item_ids: Ids) -> Pairs:
    users, items = (tensors.get(f"{part}_{side}", torch.empty(0)) for side in ("users", "items"))
    if users.shape != items.shape or users.dim() != 1 or {users.dtype, items.dtype} != {torch.int64}:
        raise DataError(f"{path}: {part} is not a list of pairs")
    pairs = Pairs(users.numpy(), items.numpy())
    for places, ids in ((pairs.users, user_ids), (pairs.items, item_ids)):
        if len(places) and not 0 <= places.min() <= places.max() < len(ids):
            raise DataError(f"{path}: {part} holds numbers that stand for no id")
    return pairs


def _read_scorer(folder: Path, manifest: dict[str, Any], split: Split, device: torch.device | str) -> Scorer:
    if manifest["model"] not in part_names("models"):
        # A name such as module:Class would import code of whoever wrote the folder.
        raise DataError(
            f"{folder / MANIFEST}: model is '{manifest['model']}'; only models of this package are opened: "
            f"{', '.join(part_names('models'))}"
        )
    tensors = _load_tensors(folder / TENSORS, device)
    try:
        scorer: Scorer = find_part("models", manifest["model"]).scorer.from_tensors(tensors)
    except (SettingsError, AttributeError) as error:
        raise DataError(f"{folder / MANIFEST}: model is '{manifest['model']}': {error}") from error
    except (KeyError, ValueError, RuntimeError) as error:
        raise DataError(f"{folder / TENSORS}: is not a model of kind '{manifest['model']}': {error!r}") from error
    if not 0 <= manifest["served_replica"] < scorer.n_replicas:
        raise DataError(
            f"{folder / MANIFEST}: served_replica is {manifest['served_replica']}, "
            f"but the replicas are 0 to {scorer.n_replicas - 1}"
        )
    try:
        shape = scorer.scores(torch.tensor([split.n_users - 1], device=device), manifest["served_replica"]).shape
    except (IndexError, RuntimeError) as error:
        raise DataError(f"{folder / TENSORS}: cannot score the last of {split.n_users} users: {error}") from error
    if shape != (1, split.n_items):
        raise DataError(f"{folder / TENSORS}: scores {shape[-1]} items, but train has {split.n_items}")
    return scorer


def _read_ids(path: Path) -> Ids:
    try:
        column = pl.read_parquet(path, glob=False)["id"]
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: is not a table of ids: {error}") from error
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
