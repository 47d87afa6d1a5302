from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from pspns.errors import DataError
from pspns.run_folder import open_model

FILES = ("model.safetensors", "pairs.safetensors", "users.parquet", "items.parquet")


@pytest.fixture
def run(fitted: Callable[[str], Any], tmp_path: Path) -> Path:
    """A copy of a run, to be damaged."""
    return Path(shutil.copytree(fitted("mf").folder, tmp_path / "run"))


def rewrite(run: Path, **changes: Any) -> None:
    """Change entries of the manifest; None removes one. Checksums are made to fit what is there."""
    path = run / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in FILES:
        manifest["sha256"][name] = hashlib.sha256((run / "model" / name).read_bytes()).hexdigest()
    manifest = {key: value for key, value in (manifest | changes).items() if value is not None}
    path.write_text(json.dumps(manifest))


def refusal(run: Path, name: str) -> str:
    """What is said when the model is opened; it must begin with the file."""
    with pytest.raises(DataError) as caught:
        open_model(run)
    assert str(caught.value).startswith(f"{run / 'model' / name}: ")
    return str(caught.value)


def test_an_untouched_copy_opens(run: Path) -> None:
    rewrite(run)
    assert len(open_model(run).recommend("u1", k=3)) == 3


def test_the_manifest_says_what_the_model_is(run: Path, fitted: Callable[[str], Any]) -> None:
    manifest = json.loads((run / "model" / "manifest.json").read_text())
    split = fitted("mf").model.split
    assert manifest["format"] == 1
    assert (manifest["model"], manifest["protocol"], manifest["seeds"]) == ("mf", "strict", [3, 0, 7])
    assert (manifest["n_users"], manifest["n_items"]) == (split.n_users, split.n_items)
    for name, checksum in manifest["sha256"].items():
        assert checksum == hashlib.sha256((run / "model" / name).read_bytes()).hexdigest()
    assert sorted(manifest["sha256"]) == sorted(FILES)
    assert pl.read_parquet(run / "model" / "users.parquet")["id"].to_list() == split.user_ids.tolist()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_any_changed_byte_is_refused(run: Path, name: str, share: float) -> None:
    path = run / "model" / name
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 1
    path.write_bytes(content)
    assert "was changed or damaged" in refusal(run, name)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_cut_file_is_refused(run: Path, name: str) -> None:
    path = run / "model" / name
    path.write_bytes(path.read_bytes()[:-1])
    assert "was changed or damaged" in refusal(run, name)
    path.unlink()
    assert "cannot be read: No such file" in refusal(run, name)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 2}, "format is 2, this version reads 1"),
        ({"format": None}, "format is None"),
        ({"sha256": None}, "expected checksums of"),
        ({"sha256": {}}, "expected checksums of"),
        ({"sha256": dict.fromkeys((*FILES, "../../etc/passwd"), "0")}, "expected checksums of"),
        ({"sha256": dict.fromkeys(FILES[1:], "0")}, "expected checksums of"),
        ({"model": "mff"}, "model is 'mff'; only models of this package are opened"),
        ({"model": None}, "model is None, expected str"),
        ({"model": "os:getcwd"}, "model is 'os:getcwd'"),
        ({"n_users": 3}, "n_users is 3, but train has"),
        ({"n_users": 10**9}, "n_users is 1000000000, but train has"),
        ({"n_items": 3}, "n_items is 3, but train has"),
        ({"n_items": "40"}, "n_items is '40', expected int"),
        ({"n_items": True}, "n_items is True, expected int"),
        ({"served_replica": 3}, "served_replica is 3, but the replicas are 0 to 2"),
        ({"served_replica": -1}, "served_replica is -1"),
        ({"served_replica": 0.0}, "served_replica is 0.0, expected int"),
        ({"made_by": None}, "made_by is None, expected str"),
    ],
)
def test_a_manifest_that_does_not_fit(run: Path, changes: dict[str, Any], complaint: str) -> None:
    rewrite(run, **changes)
    assert complaint in refusal(run, "manifest.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_a_manifest_that_is_none(run: Path, text: str) -> None:
    (run / "model" / "manifest.json").write_text(text)
    assert refusal(run, "manifest.json")
    (run / "model" / "manifest.json").unlink()
    assert "cannot be read: No such file" in refusal(run, "manifest.json")


class TestConsistentForgeries:
    """Checksums that fit do not make a model of what is none."""

    def change(self, run: Path, name: str, **tensors: torch.Tensor | None) -> None:
        path = run / "model" / name
        changed = {**load_file(path), **tensors}
        save_file({key: tensor for key, tensor in changed.items() if tensor is not None}, path)
        rewrite(run)

    @pytest.mark.parametrize(
        ("tensors", "complaint"),
        [
            ({"users": None}, "is not a model of kind 'mf': KeyError('users')"),
            ({"users": torch.zeros(2, 3, 8)}, "cannot score the last of"),
            ({"items": torch.zeros(2, 3, 8)}, "scores 2 items, but train has"),
            ({"items": torch.zeros(2, 3, 5)}, "cannot score the last of"),
        ],
    )
    def test_tensors(self, run: Path, tensors: dict[str, Any], complaint: str) -> None:
        self.change(run, "model.safetensors", **tensors)
        assert complaint in refusal(run, "model.safetensors")

    @pytest.mark.parametrize(
        ("tensors", "complaint"),
        [
            ({"test_users": None}, "test is not a list of pairs"),
            ({"valid_users": torch.tensor([0])}, "valid is not a list of pairs"),
            ({"train_users": torch.tensor([0.0]), "train_items": torch.tensor([0.0])}, "train is not a list of pairs"),
            ({"test_users": torch.tensor([10**6]), "test_items": torch.tensor([0])}, "test holds numbers that stand"),
            ({"test_users": torch.tensor([0]), "test_items": torch.tensor([-1])}, "test holds numbers that stand"),
        ],
    )
    def test_pairs(self, run: Path, tensors: dict[str, Any], complaint: str) -> None:
        self.change(run, "pairs.safetensors", **tensors)
        assert complaint in refusal(run, "pairs.safetensors")

    def test_no_tensors_at_all(self, run: Path) -> None:
        (run / "model" / "model.safetensors").write_bytes(b"\x80\x04.")
        rewrite(run)
        assert "is not a readable safetensors file" in refusal(run, "model.safetensors")

    def test_ids(self, run: Path) -> None:
        pl.DataFrame({"name": ["a"]}).write_parquet(run / "model" / "users.parquet")
        rewrite(run)
        assert "is not a table of ids" in refusal(run, "users.parquet")
        (run / "model" / "users.parquet").write_text("user\na\n")
        rewrite(run)
        assert "is not a table of ids" in refusal(run, "users.parquet")
