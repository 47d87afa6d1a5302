"""Model files: safetensors, Parquet id maps, and a manifest whose checksums are verified before anything is used."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn, cast

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pspns.components import find_part, part_names
from pspns.data.interactions import Ids
from pspns.data.split import Pairs, Split
from pspns.errors import DataError, SettingsError
from pspns.json_files import write_json
from pspns.parquet_files import read_table
from pspns.run import Run
from pspns.shapes import Scorer

FORMAT = 2  # 1 had no checksum of the manifest itself and of the run's record
MANIFEST = "manifest.json"
TENSORS = "model.safetensors"
PAIRS = "pairs.safetensors"
USERS, ITEMS = "users.parquet", "items.parquet"
RECORD = "result.json"  # of the run, in the folder above
NOISE = "noise.parquet"  # there, too, if train has noise
PAIR_WEIGHTS = "pair-weights.parquet"  # if a denoiser gave some
PARTS = ("train", "valid", "test", "positives")
SIDES = ("users", "items")
PAIR_TENSORS = [f"{part}_{side}" for part in PARTS for side in SIDES]
NOISE_TENSORS = [f"noise_{side}" for side in SIDES]  # only where there is noise

BLANK = "0" * 64  # what the manifest's own checksum is computed over in its place
MANIFEST_LIMIT = 1_000_000  # bytes; those that are written here have about a thousand
ID_TYPES = (pa.int64(), pa.uint64(), pa.string(), pa.large_string())
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64)
# What code of a model may meet in tensors that were not made by it.
MISFITS = (LookupError, ValueError, TypeError, RuntimeError, ArithmeticError, MemoryError)
SHORT = Repr()
SHORT.maxstring, SHORT.maxother = 60, 60


def write_model(run: Run, folder: Path, served_replica: int) -> None:
    """The scorer of every replica, the split it was trained on, and who and what the numbers stand for.

    The last of a run's files: it seals the others.
    """
    folder.mkdir()
    split = run.split
    tensors = {name: tensor.contiguous().cpu() for name, tensor in run.model.fitted.scorer.tensors().items()}
    save_file(tensors, folder / TENSORS)
    parts = dict(zip(PARTS, (split.train, split.valid, split.test, run.positives), strict=True))
    if len(split.noise):
        parts["noise"] = split.noise
    # Cloned: train and positives may be the same arrays, and safetensors refuses to write shared memory.
    sides = {f"{part}_{side}": getattr(parts[part], side) for part in parts for side in SIDES}
    save_file({name: torch.from_numpy(side).clone() for name, side in sides.items()}, folder / PAIRS)
    for name, ids in ((USERS, split.user_ids), (ITEMS, split.item_ids)):
        id_column(ids).to_frame("id").write_parquet(folder / name)
    for name in (TENSORS, PAIRS):
        # safetensors lets only the owner read; who may is for the folder and the umask to say.
        (folder / name).chmod((folder / USERS).stat().st_mode)
    sealed = [*_sealed(folder), *filter(Path.exists, _sealed_if_there(folder))]
    manifest = {
        "format": FORMAT,
        "model": run.model.name,
        "protocol": run.protocol.name,
        "n_users": split.n_users,
        "n_items": split.n_items,
        "made_by": split.made_by,
        "seeds": list(run.settings.run.seeds),
        "served_replica": served_replica,
        "sha256": {path.name: _sha256(path) for path in sealed} | {MANIFEST: BLANK},
    }
    write_json(folder / MANIFEST, manifest)
    content = (folder / MANIFEST).read_bytes()
    own = hashlib.sha256(content).hexdigest()
    (folder / MANIFEST).write_bytes(content.replace(BLANK.encode(), own.encode()))


def read_model(folder: Path, device: torch.device | str) -> tuple[Scorer, int, Split, Pairs]:
    """The scorer, the replica to serve, the split, and the pairs the loss was summed over."""
    manifest = _read_manifest(folder)
    split, positives = _read_split(folder, manifest)
    return _read_scorer(folder, manifest, split, device), manifest["served_replica"], split, positives


def id_column(ids: Ids) -> pl.Series:
    """Ids as a column of the type the data had."""
    kind: Any = {"i": pl.Int64, "u": pl.UInt64, "O": pl.String}[ids.dtype.kind]
    return pl.Series(ids.tolist() if ids.dtype == object else ids, dtype=kind)


def _sealed(folder: Path) -> list[Path]:
    """The files whose checksums stand in the manifest, beside its own."""
    return [*(folder / name for name in (TENSORS, PAIRS, USERS, ITEMS)), folder.parent / RECORD]


def _sealed_if_there(folder: Path) -> list[Path]:
    """Those that not every run writes."""
    return [folder.parent / name for name in (NOISE, PAIR_WEIGHTS)]


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once it and every other file is what it says."""
    path = folder / MANIFEST
    with _plain_file(path) as opened:
        content = opened.read(MANIFEST_LIMIT + 1)
    if len(content) > MANIFEST_LIMIT:
        raise DataError(f"{path}: is no manifest: it has more than {MANIFEST_LIMIT:,} bytes")
    manifest = _parse(path, content)
    if manifest.get("format") != FORMAT:
        given = SHORT.repr(manifest.get("format"))
        raise DataError(f"{path}: format is {given}, this version reads {FORMAT}; train again with this version")
    for key, kind in {"model": str, "made_by": str, "n_users": int, "n_items": int, "served_replica": int}.items():
        if type(manifest.get(key)) is not kind:
            raise DataError(f"{path}: {key} is {SHORT.repr(manifest.get(key))}, expected {kind.__name__}")
    checksums = manifest.get("sha256")
    names = [*(file.name for file in _sealed(folder)), MANIFEST]
    more = {file.name: file for file in _sealed_if_there(folder)}
    if (
        not isinstance(checksums, dict)
        or not set(names) <= set(checksums) <= {*names, *more}
        or not all(map(_is_checksum, checksums.values()))
    ):
        raise DataError(f"{path}: expected checksums of {', '.join(names)}, and of nothing else but {', '.join(more)}")
    files = [*_sealed(folder), *(file for name, file in more.items() if name in checksums)]
    own = content.replace(checksums[MANIFEST].encode(), BLANK.encode())
    found = {path: hashlib.sha256(own).hexdigest()} | {file: _sha256(file) for file in files}
    for file, checksum in found.items():
        if checksum != checksums[file.name]:
            raise DataError(f"{file}: was changed or damaged since it was written; train again or restore it")
    return manifest


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    """A JSON object in which no key occurs twice and every number is one."""

    def once(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(entries)) < len(entries):
            raise ValueError("a key occurs twice")
        return dict(entries)

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    try:
        parsed = json.loads(content.decode(), object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(parsed).__name__}")
    return parsed


def _is_checksum(value: Any) -> bool:
    return isinstance(value, str) and len(value) == len(BLANK)


def _read_split(folder: Path, manifest: dict[str, Any]) -> tuple[Split, Pairs]:
    tensors = _load_tensors(folder / PAIRS, "cpu")
    if set(tensors) - set(NOISE_TENSORS) != set(PAIR_TENSORS) or len(set(tensors) & set(NOISE_TENSORS)) == 1:
        raise DataError(f"{folder / PAIRS}: expected {', '.join(PAIR_TENSORS)}, got {SHORT.repr(sorted(tensors))}")
    user_ids, item_ids = _read_ids(folder / USERS), _read_ids(folder / ITEMS)
    train, valid, test, positives = (_read_pairs(folder / PAIRS, tensors, part, user_ids, item_ids) for part in PARTS)
    for key, places in (("n_users", train.users), ("n_items", train.items)):
        # Whoever occurs in train has a number below all others: the highest one there tells how many they are.
        n_found = int(places.max(initial=-1)) + 1
        if manifest[key] != n_found or n_found == 0:
            raise DataError(f"{folder / MANIFEST}: {key} is {manifest[key]}, but train has {n_found}")
    noise = Pairs.none()
    if NOISE_TENSORS[0] in tensors:
        noise = _read_pairs(folder / PAIRS, tensors, "noise", user_ids, item_ids)
    split = Split(
        train,
        valid,
        test,
        n_users=manifest["n_users"],
        n_items=manifest["n_items"],
        user_ids=user_ids,
        item_ids=item_ids,
        made_by=manifest["made_by"],
        noise=noise,
    )
    if len(split.clean_train) + len(split.noise) != len(train):
        raise DataError(f"{folder / PAIRS}: noise holds pairs that train does not")
    return split, positives


def _read_pairs(path: Path, tensors: dict[str, torch.Tensor], part: str, user_ids: Ids, item_ids: Ids) -> Pairs:
    users, items = tensors[f"{part}_users"], tensors[f"{part}_items"]
    if users.shape != items.shape or users.dim() != 1 or {users.dtype, items.dtype} != {torch.int64}:
        raise DataError(f"{path}: {part} is not a list of pairs")
    pairs = Pairs(users.numpy(), items.numpy())
    for places, ids in ((pairs.users, user_ids), (pairs.items, item_ids)):
        if len(places) and not 0 <= places.min() <= places.max() < len(ids):
            raise DataError(f"{path}: {part} holds numbers that stand for no id")
    if (np.diff(pairs.users * len(item_ids) + pairs.items) <= 0).any():
        raise DataError(f"{path}: {part} is not sorted by user and item, each pair once")
    return pairs


def _read_scorer(folder: Path, manifest: dict[str, Any], split: Split, device: torch.device | str) -> Scorer:
    if manifest["model"] not in part_names("models"):
        # A name such as module:Class would import code of whoever wrote the folder.
        raise DataError(
            f"{folder / MANIFEST}: model is {SHORT.repr(manifest['model'])}; only models of this package are opened: "
            f"{', '.join(part_names('models'))}"
        )
    path, replica = folder / TENSORS, manifest["served_replica"]
    tensors = _load_tensors(path, device)
    _check_types(path, tensors, split)
    try:
        scorer: Scorer = find_part("models", manifest["model"]).scorer.from_tensors(tensors)
        n_replicas, used = scorer.n_replicas, scorer.tensors()
    except (SettingsError, AttributeError) as error:
        raise DataError(f"{folder / MANIFEST}: model is '{manifest['model']}': {error}") from error
    except MISFITS as error:
        raise DataError(f"{path}: is not a model of kind '{manifest['model']}': {error!r}") from error
    if more := sorted(set(tensors) - set(used)):
        raise DataError(f"{path}: holds {SHORT.repr(more[0])}, which a model of kind '{manifest['model']}' has not")
    if not 0 <= replica < n_replicas:
        raise DataError(f"{folder / MANIFEST}: served_replica is {replica}, but the replicas are 0 to {n_replicas - 1}")
    _try_out(path, scorer, replica, split, device)
    return scorer


def _try_out(path: Path, scorer: Scorer, replica: int, split: Split, device: torch.device | str) -> None:
    """One list for somebody known and one for somebody new: sizes that do not fit show there."""
    user, item = (torch.tensor([n - 1], device=device) for n in (split.n_users, split.n_items))
    lists: dict[str, Callable[[], torch.Tensor]] = {
        f"the last of {split.n_users} users": lambda: scorer.scores(user, replica)[0],
        "somebody who has the last item": lambda: scorer.fold_in(item, replica),
    }
    for whom, score_items in lists.items():
        try:
            scores = score_items()
        except MISFITS as error:
            raise DataError(f"{path}: cannot score items for {whom}: {error}") from error
        if scores.shape != (split.n_items,) or not scores.is_floating_point():
            raise DataError(
                f"{path}: scores for {whom} are {scores.dtype} of shape {[*scores.shape]}, expected a floating-point "
                f"number for each of {split.n_items} items"
            )
    # A seed whose training ran away does not spoil the others; only then the one that is served is looked at alone.
    if not _is_finite(scorer) and not (scorer.n_replicas > 1 and _is_finite(cast("Any", scorer).part(replica, 1))):
        raise DataError(f"{path}: holds numbers that are not finite; train again with a lower learning rate")


def _is_finite(scorer: Scorer) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in scorer.tensors().values())


def _check_types(path: Path, tensors: dict[str, torch.Tensor], split: Split) -> None:
    """What must be true of the tensors of every model."""
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise DataError(f"{path}: {name} is of type {tensor.dtype}, which no model has")
        # Whole numbers are sizes or places of users, items and pairs; a size beyond that would only take memory.
        limit = split.n_users * split.n_items
        if not tensor.is_floating_point() and tensor.numel() and not 0 <= tensor.min() <= tensor.max() <= limit:
            raise DataError(f"{path}: {name} holds numbers that stand for no user, item or pair")


def _read_ids(path: Path) -> Ids:
    try:
        table = read_table(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{path}: is not a table of ids: {error}") from error
    if table.column_names != ["id"] or table.schema[0].type not in ID_TYPES:
        raise DataError(f"{path}: is not a table of ids: expected a column 'id' of whole numbers or text")
    column = table["id"]
    if column.null_count or len(column.unique()) < len(column):
        raise DataError(f"{path}: is not a table of ids: one is missing or occurs twice")
    ids: Ids = column.to_numpy()
    return ids


def _load_tensors(path: Path, device: torch.device | str) -> dict[str, torch.Tensor]:
    try:
        tensors = load_file(path, device=str(device))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: is not a readable safetensors file: {error}") from error
    with _plain_file(path) as file:
        _parse(path, file.read(int.from_bytes(file.read(8), "little")))  # a name that occurs twice is overlooked above
    # Copied to where torch puts tensors: on some processors the last bits of a product depend on where in memory its
    # factors begin, and a file begins them anywhere.
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _sha256(path: Path) -> str:
    with _plain_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _plain_file(path: Path) -> Iterator[BufferedReader]:
    """The file, open; no link to something else of whoever opens the folder, no pipe or device that never ends."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise DataError(f"{path}: is no plain file; put the file itself there")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
