"""Model folders: what is written, and whatever is damaged or forged is refused by the name of the file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from forgery import BLANK, reseal, seal
from promises import CaseCounter
from safetensors.torch import load_file, save, save_file

from pspns.errors import DataError
from pspns.run_folder import open_model

TENSORS, PAIRS, USERS, ITEMS = FILES = ("model.safetensors", "pairs.safetensors", "users.parquet", "items.parquet")
SEALED = (*FILES, "manifest.json", "../result.json")
Folder = Callable[[str], Path]


@pytest.fixture
def copy_of(fitted: Callable[[str], Any], tmp_path: Path) -> Folder:
    """A copy of the run of a model, to be damaged."""
    return lambda name: Path(shutil.copytree(fitted(name).folder, tmp_path / name))


@pytest.fixture
def run(copy_of: Folder) -> Path:
    return copy_of("mf")


def file_of(run: Path, name: str) -> Path:
    return run / "result.json" if name == "../result.json" else run / "model" / name


def refusal(run: Path, name: str) -> str:
    """What is said when the model is opened; it must begin with the file."""
    with pytest.raises(DataError) as caught:
        open_model(run)
    assert str(caught.value).startswith(f"{file_of(run, name)}: ")
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def test_an_untouched_copy_opens(run: Path) -> None:
    reseal(run)
    assert len(open_model(run).recommend("u1", k=3)) == 3


def test_the_manifest_says_what_the_model_is(run: Path, fitted: Callable[[str], Any]) -> None:
    text = (run / "model" / "manifest.json").read_text()
    manifest, split = json.loads(text), fitted("mf").model.split
    assert manifest["format"] == 2
    assert (manifest["model"], manifest["protocol"], manifest["seeds"]) == ("mf", "strict", [3, 0, 7])
    assert (manifest["n_users"], manifest["n_items"]) == (split.n_users, split.n_items)
    own = manifest["sha256"].pop("manifest.json")
    assert own == hashlib.sha256(text.replace(own, BLANK).encode()).hexdigest()
    assert manifest["sha256"].keys() == {*FILES, "result.json"}
    for name in (*FILES, "../result.json"):
        file = file_of(run, name)
        assert manifest["sha256"][file.name] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert pl.read_parquet(run / "model" / "users.parquet")["id"].to_list() == split.user_ids.tolist()


@pytest.mark.parametrize("name", SEALED)
class TestDamage:
    @pytest.mark.promise("hostile-models", cases=100)
    def test_any_changed_byte(self, run: Path, name: str, case_counter: CaseCounter) -> None:
        path, rng = file_of(run, name), random.Random(name)
        good = path.read_bytes()
        for case in range(case_counter.planned):
            content = bytearray(good)
            # From the first byte to the last.
            content[case * (len(good) - 1) // (case_counter.planned - 1)] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
            assert refusal(run, name)
            case_counter.count()
        path.write_bytes(good)
        assert open_model(run)

    @pytest.mark.promise("hostile-models", cases=20)
    def test_any_other_length(self, run: Path, name: str, case_counter: CaseCounter) -> None:
        path = file_of(run, name)
        good = path.read_bytes()
        lengths = [length * len(good) // (case_counter.planned - 1) for length in range(case_counter.planned - 1)]
        for content in (*(good[:length] for length in lengths), good + b"\n"):
            path.write_bytes(content)
            assert refusal(run, name)
            case_counter.count()

    @pytest.mark.promise("hostile-models")
    def test_no_file(self, run: Path, name: str) -> None:
        file_of(run, name).unlink()
        if name == "../result.json":
            with pytest.raises(DataError, match=rf"{run} is not a run's folder: it has no result\.json"):
                open_model(run)
        else:
            assert "cannot be read: No such file" in refusal(run, name)


def link_elsewhere(path: Path) -> None:
    """To the very bytes that were there: only the link is wrong."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("put", [link_elsewhere, put_folder, put_pipe, put_endless])
def test_what_is_no_plain_file(run: Path, name: str, put: Callable[[Path], None]) -> None:
    put(run / "model" / name)
    assert "is no plain file; put the file itself there" in refusal(run, name)


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 3}, "format is 3, this version reads 2"),
        ({"format": None}, "format is None"),
        ({"format": "x" * 10**5}, "this version reads 2"),
        ({"sha256": None}, "expected checksums of"),
        ({"sha256": {}}, "expected checksums of"),
        ({"sha256": [BLANK]}, "expected checksums of"),
        ({"sha256": dict.fromkeys((*FILES, "../../etc/passwd"), BLANK)}, "expected checksums of"),
        ({"sha256": dict.fromkeys((*FILES, "result.json"), BLANK)}, "expected checksums of"),
        ({"sha256": dict.fromkeys((*FILES, "result.json", "manifest.json"), 0)}, "expected checksums of"),
        ({"sha256": dict.fromkeys((*FILES, "result.json", "manifest.json"), "")}, "expected checksums of"),
        ({"model": "mff"}, "model is 'mff'; only models of this package are opened"),
        ({"model": None}, "model is None, expected str"),
        ({"model": ["mf"]}, "model is ['mf'], expected str"),
        ({"model": "os:getcwd"}, "model is 'os:getcwd'"),
        ({"model": "../../payload"}, "model is '../../payload'"),
        ({"model": "_dot_product"}, "model is '_dot_product'"),
        ({"model": "x" * 10**5}, "only models of this package are opened"),
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
    reseal(run, **changes)
    assert complaint in refusal(run, "manifest.json")


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "expected a JSON object, got list"),
        (b"null", "expected a JSON object, got NoneType"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a":' * 100_000, "is not JSON"),
        (b'{"format": 1' + b"0" * 5_000 + b"}", "is not JSON"),
        (b'{"made_by": "\xff"}', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"made_by": "' + b"x" * 100_000_000 + b'"}', "it has more than 1,000,000 bytes"),
    ],
    ids=range(10),
)
def test_a_manifest_that_is_none(run: Path, content: bytes, complaint: str) -> None:
    (run / "model" / "manifest.json").write_bytes(content)
    assert complaint in refusal(run, "manifest.json")


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"model": "mf"', '"model": "ease", "model": "mf"', "a key occurs twice"),
        ('"users.parquet"', '"users.parquet": 0, "users.parquet"', "a key occurs twice"),
        ('"seeds": [3', '"seeds": [NaN', "NaN is no number"),
        ('"seeds": [3', '"seeds": [-Infinity', "-Infinity is no number"),
    ],
)
def test_a_manifest_that_only_some_would_read_alike(run: Path, before: str, after: str, complaint: str) -> None:
    reseal(run)
    path = run / "model" / "manifest.json"
    text = path.read_text()
    own = json.loads(text)["sha256"]["manifest.json"]
    assert before in text
    seal(path, text.replace(own, BLANK).replace(before, after))
    assert complaint in refusal(run, "manifest.json")


class Payload:
    """Unpickled, it would leave a file."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("name", [*FILES, "manifest.json", "../result.json"])
@pytest.mark.parametrize("disguise", ["pickle", "torch", "safetensors that end in a pickle"])
def test_code_in_disguise(run: Path, tmp_path: Path, name: str, disguise: str) -> None:
    canary, path = tmp_path / "canary", file_of(run, name)
    content = pickle.dumps(Payload(canary))
    if disguise == "torch":
        file = io.BytesIO()
        torch.save({"users": Payload(canary)}, file)
        content = file.getvalue()
    elif disguise.startswith("safetensors"):
        content = save({"users": torch.ones(3)}) + content
    path.write_bytes(content)
    if name in FILES:
        reseal(run)
    assert refusal(run, name)
    assert not canary.exists()
    if disguise == "pickle":
        pickle.loads(content)  # noqa: S301
        assert canary.exists(), "it would not have done any harm"


SIZE, N_USERS, N_ITEMS = 8, 10, 5


def laid_out(header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file by hand: the length of the header, the header, the data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin: Any, end: Any, dtype: str = "F32", shape: Any = (4,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("name", [TENSORS, PAIRS])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(8), id="header of no length"),
        pytest.param(b"\xff" * 8 + b"{}", id="header of negative length"),
        pytest.param(laid_out(b"{}", length=2**62), id="header of huge length"),
        pytest.param(laid_out(b"{}", length=100), id="header longer than the file"),
        pytest.param(laid_out(b"{'users': 1}"), id="header is not JSON"),
        pytest.param(laid_out(b"[]"), id="header is a list"),
        pytest.param(laid_out(b'{"\xff": 1}'), id="header is not UTF-8"),
        pytest.param(laid_out(b'{"a":' * 50_000), id="header is nested deeply"),
        pytest.param(laid_out({"a": tensor(0, 16), "b": tensor(8, 24)}, bytes(24)), id="overlapping offsets"),
        pytest.param(laid_out({"a": tensor(0, 16), "b": tensor(0, 16)}, bytes(16)), id="the same offsets"),
        pytest.param(laid_out({"a": tensor(0, 16)}, bytes(12)), id="offsets beyond the file"),
        pytest.param(laid_out({"a": tensor(2**62, 2**62 + 16)}, bytes(16)), id="offsets far beyond the file"),
        pytest.param(laid_out({"a": tensor(16, 0)}, bytes(16)), id="offsets the wrong way round"),
        pytest.param(laid_out({"a": tensor(-16, 0)}, bytes(16)), id="negative offsets"),
        pytest.param(laid_out({"a": tensor("0", "16")}, bytes(16)), id="offsets that are text"),
        pytest.param(laid_out({"a": tensor(0, 16), "b": tensor(24, 40)}, bytes(40)), id="a hole"),
        pytest.param(laid_out({"a": tensor(0, 16)}, bytes(20)), id="bytes of no tensor"),
        pytest.param(laid_out({"a": tensor(0, 16, dtype="PICKLE")}, bytes(16)), id="unknown type"),
        pytest.param(laid_out({"a": tensor(0, 16, shape=[5])}, bytes(16)), id="shape that does not fit"),
        pytest.param(laid_out({"a": tensor(0, 16, shape=[-4])}, bytes(16)), id="negative shape"),
        pytest.param(laid_out({"a": tensor(0, 0, shape=[2**32, 2**32])}), id="shape that overflows"),
        pytest.param(laid_out({"a": tensor(0, 0, shape=[2**62, 4])}), id="size that overflows"),
        pytest.param(laid_out({"a": 5}), id="tensor that is none"),
        pytest.param(laid_out({"__metadata__": {"a": 5}, "a": tensor(0, 16)}, bytes(16)), id="metadata that are none"),
        pytest.param(b"PK\x03\x04" + bytes(100), id="zip"),
    ],
)
def test_tensors_that_cannot_be_laid_out_so(run: Path, name: str, content: bytes) -> None:
    (run / "model" / name).write_bytes(content)
    reseal(run)
    assert "is not a readable safetensors file" in refusal(run, name)


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("name", [TENSORS, PAIRS])
def test_a_tensor_that_is_named_twice(run: Path, name: str) -> None:
    """Readers differ in which of the two they take; this file's are even the same."""
    path = run / "model" / name
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    header, data = good[8 : 8 + length], good[8 + length :]
    (first, entry), *_ = json.loads(header).items()
    twice = header.rstrip()[:-1] + f", {json.dumps(first)}: {json.dumps(entry)}}}".encode()
    path.write_bytes(laid_out(twice, data))
    assert load_file(path)
    reseal(run)
    assert "a key occurs twice" in refusal(run, name)


def change(run: Path, name: str, tensors: dict[str, Any]) -> None:
    """Other tensors, None removes one; a function gets what was there."""
    path = run / "model" / name
    before = load_file(path)
    after = before | {key: value(before) if callable(value) else value for key, value in tensors.items()}
    save_file({key: value.contiguous() for key, value in after.items() if value is not None}, path)
    reseal(run)


def broken(table: str, value: float, replica: int) -> Callable[[dict[str, torch.Tensor]], torch.Tensor]:
    def break_one(before: dict[str, torch.Tensor]) -> torch.Tensor:
        changed = before[table].clone()
        changed[-1, replica, -1] = value
        return changed

    return break_one


@pytest.mark.promise("hostile-models")
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("model", "tensors", "complaint"),
    [
        ("mf", {"users": None}, "is not a model of kind 'mf': KeyError('users')"),
        ("mf", {"users": torch.zeros(2, 3, 8)}, "cannot score items for the last of"),
        ("mf", {"users": torch.zeros(0, 3, 8)}, "cannot score items for the last of"),
        ("mf", {"users": torch.zeros(100)}, "is not a model of kind 'mf': IndexError"),
        ("mf", {"items": torch.zeros(2, 3, 8)}, "of shape [2], expected a floating-point number for each of"),
        ("mf", {"items": torch.zeros(2, 3, 5)}, "cannot score items for the last of"),
        ("mf", {"items": torch.zeros(100)}, "cannot score items for the last of"),
        ("mf", {"fold": torch.zeros(2, 3, 8)}, "cannot score items for somebody who has the last item"),
        ("mf", {"fold": torch.zeros(100, 3, 8, 8)}, "scores for somebody who has the last item"),
        ("mf", {"more": torch.zeros(1)}, "holds 'more', which a model of kind 'mf' has not"),
        ("mf", {"users": lambda before: before["users"].double()}, "cannot score items for the last of"),
        ("mf", {"users": lambda before: before["users"].to(torch.complex64)}, "users is of type torch.complex64"),
        ("mf", {"users": lambda before: before["users"].bool()}, "users is of type torch.bool"),
        ("mf", {"users": lambda before: before["users"].to(torch.float8_e4m3fn)}, "users is of type torch.float8"),
        ("mf", {"users": broken("users", float("nan"), 1)}, "holds numbers that are not finite"),
        ("mf", {"items": broken("items", float("inf"), 1)}, "holds numbers that are not finite"),
        ("popular", {"counts": torch.zeros(3)}, "of shape [3], expected"),
        ("popular", {"counts": lambda before: before["counts"].long()}, "users are torch.int64 of shape"),
        ("popular", {"counts": lambda before: -before["counts"].long()}, "stand for no user, item or pair"),
        ("svd", {"fold": lambda before: before["fold"][:, :, :3]}, "cannot score items for somebody"),
        ("ease", {"weights": torch.zeros(3, 3)}, ""),
        ("ease", {"weights": lambda before: before["weights"][:, :5]}, "of shape [5], expected"),
        ("ease", {"shape": torch.tensor([10**15, 40])}, "stand for no user, item or pair"),
        ("ease", {"shape": torch.tensor([10**9, 10**9])}, "stand for no user, item or pair"),
        ("ease", {"shape": torch.tensor([1, 0])}, ""),
        ("ease", {"shape": torch.tensor([1, 2, 3])}, "is not a model of kind 'ease': ValueError"),
        ("ease", {"shape": torch.tensor([1.5, 2.5])}, "is not a model of kind 'ease': TypeError"),
        ("ease", {"owned": torch.tensor([-1])}, "stand for no user, item or pair"),
        ("ease", {"owned": torch.tensor([2**62])}, "stand for no user, item or pair"),
        ("ease", {"owned": torch.tensor([[1.5]])}, "is not a model of kind 'ease'"),
    ],
)
def test_tensors_that_are_no_such_model(copy_of: Folder, model: str, tensors: dict[str, Any], complaint: str) -> None:
    run = copy_of(model)
    manifest = json.loads((run / "model" / "manifest.json").read_text())
    change(run, TENSORS, tensors)
    if model == "mf":
        reseal(run, served_replica=1)
    assert manifest["model"] == model
    assert complaint in refusal(run, TENSORS)


def test_a_seed_that_ran_away_does_not_spoil_the_others(run: Path) -> None:
    change(run, TENSORS, {"users": broken("users", float("nan"), 1)})
    reseal(run, served_replica=0)
    assert len(open_model(run).recommend("u1", k=3)) == 3


NONE = torch.empty(0, dtype=torch.int64)


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize(
    ("tensors", "complaint"),
    [
        ({"test_users": None}, "expected train_users, train_items, valid_users"),
        ({"more": NONE}, "expected train_users, train_items, valid_users"),
        ({"valid_users": torch.tensor([0])}, "valid is not a list of pairs"),
        ({"valid_users": torch.tensor([[0]]), "valid_items": torch.tensor([[0]])}, "valid is not a list of pairs"),
        ({"train_users": torch.tensor([0.0]), "train_items": torch.tensor([0.0])}, "train is not a list of pairs"),
        ({"train_users": torch.tensor([0]), "train_items": torch.tensor([0]).int()}, "train is not a list of pairs"),
        ({"test_users": torch.tensor([10**6]), "test_items": torch.tensor([0])}, "test holds numbers that stand"),
        ({"test_users": torch.tensor([0]), "test_items": torch.tensor([-1])}, "test holds numbers that stand"),
        ({"positives_users": torch.tensor([-(2**63)]), "positives_items": torch.tensor([0])}, "positives holds"),
    ],
)
def test_pairs_that_are_none(run: Path, tensors: dict[str, Any], complaint: str) -> None:
    change(run, PAIRS, tensors)
    assert complaint in refusal(run, PAIRS)


@pytest.mark.promise("hostile-models")
def test_a_model_of_nobody(run: Path) -> None:
    change(run, PAIRS, {"train_users": NONE, "train_items": NONE})
    reseal(run, n_users=0, n_items=0)
    assert "n_users is 0, but train has 0" in refusal(run, "manifest.json")


def ids_of(run: Path) -> list[str]:
    return pl.read_parquet(run / "model" / USERS)["id"].to_list()


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize(
    ("name", "table", "complaint"),
    [
        (USERS, lambda ids: {"name": ids}, "expected a column 'id'"),
        (USERS, lambda ids: {"id": ids, "more": ids}, "expected a column 'id'"),
        (USERS, lambda ids: {}, "expected a column 'id'"),
        (USERS, lambda ids: {"id": [float(place) for place in range(len(ids))]}, "whole numbers or text"),
        (USERS, lambda ids: {"id": [None, *ids[1:]]}, "one is missing or occurs twice"),
        (USERS, lambda ids: {"id": [ids[1], *ids[1:]]}, "one is missing or occurs twice"),
        (USERS, lambda ids: {"id": [[one] for one in ids]}, "whole numbers or text"),
        (USERS, lambda ids: {"id": [{"a": one} for one in ids]}, "whole numbers or text"),
        (USERS, lambda ids: {"id": [one.encode() for one in ids]}, "whole numbers or text"),
        (USERS, lambda ids: {"id": pl.Series(ids, dtype=pl.Categorical)}, "whole numbers or text"),
        (USERS, lambda ids: {"id": pl.Series(range(len(ids)), dtype=pl.Date)}, "whole numbers or text"),
        (USERS, lambda ids: {"id": pl.Series(range(len(ids)), dtype=pl.Int8)}, "whole numbers or text"),
        (PAIRS, lambda ids: {"id": ids[:-1]}, "holds numbers that stand for no id"),
        (PAIRS, lambda ids: {"id": pl.Series([], dtype=pl.String)}, "holds numbers that stand for no id"),
    ],
)  # fmt: skip
def test_ids_that_are_none(run: Path, name: str, table: Callable[[list[str]], Any], complaint: str) -> None:
    pl.DataFrame(table(ids_of(run))).write_parquet(run / "model" / USERS)
    reseal(run)
    assert complaint in refusal(run, name)


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("content", [b"", b"user\na\n", b"PAR1PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_table_of_ids_that_is_none(run: Path, content: bytes) -> None:
    (run / "model" / ITEMS).write_bytes(content)
    reseal(run)
    assert "is not a table of ids" in refusal(run, ITEMS)


def test_whatever_the_bytes_it_is_an_error_or_a_table(run: Path) -> None:
    """With checksums that fit; in a process of its own, because some readers end the whole process over such files."""
    done = subprocess.run([sys.executable, "-c", FUZZ, run], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused, opened = map(int, done.stdout.split())
    assert refused + opened == 300
    assert refused > 150


FUZZ = """
import random, sys
from pathlib import Path
sys.path.insert(0, "tests")
from forgery import reseal
from pspns.errors import DataError
from pspns.run_folder import open_model

run, rng, refused = Path(sys.argv[1]), random.Random(0), 0
for name in ("users.parquet", "items.parquet", "model.safetensors"):
    path = run / "model" / name
    good = path.read_bytes()
    for _ in range(100):
        content = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(min(len(good), 1000))] = rng.randrange(256)
        path.write_bytes(content)
        reseal(run)
        try:
            open_model(run)
        except DataError as error:
            assert str(error).startswith(str(run))
            refused += 1
    path.write_bytes(good)
print(refused, 300 - refused)
"""


@pytest.mark.promise("hostile-models")
@pytest.mark.parametrize("words", [("recommend", "--user", "u1"), ("recommend", "--items", "101"), ("evaluate",)])
def test_on_the_command_line(command: Callable[..., Any], run: Path, words: tuple[str, ...]) -> None:
    (run / "model" / TENSORS).write_bytes(pickle.dumps(Payload(run / "canary")))
    reseal(run)
    done = command(words[0], run, *words[1:])
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"pspns: error: {run / 'model' / TENSORS}: is not a readable safetensors file")
    assert not (run / "canary").exists()
