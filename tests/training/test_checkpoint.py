"""Whatever happens to the process, the disk or the files: a state that was not written whole is never given back."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import math
import os
import random
import resource
import shutil
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from other_processes import at_once, wait_until
from safetensors.torch import load_file
from torch import Tensor

from pspns import lock_file
from pspns.errors import PspnsError, SettingsError
from pspns.training import checkpoint
from pspns.training.checkpoint import Checkpoint, Checkpoints

DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
IDENTITY = {"training": {"l2": 1e-4, "steps": None}, "run": {"seeds": [0, 1]}, "data": "5c1f"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def checkpoints(folder: Path) -> Checkpoints:
    return Checkpoints(folder, IDENTITY)


def state(step: int, size: int = 3) -> dict[str, Tensor]:
    return {"weights": torch.arange(size) * 0.1 + step, "calls": torch.tensor(step)}


def notes(step: int) -> dict[str, Any]:
    return {"epoch": step, "history": [step / 7]}


def write(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        checkpoints.write(step, state(step), notes(step))


def must_not_say(words: str) -> None:
    raise AssertionError(words)


def latest(checkpoints: Checkpoints, say: Callable[[str], None] = must_not_say) -> Checkpoint:
    found = checkpoints.latest(say)
    assert found is not None
    return found


def step_found(checkpoints: Checkpoints, say: Callable[[str], None] = must_not_say, size: int = 3) -> int:
    """The step of the newest checkpoint, which must hold what was written at that step."""
    found = latest(checkpoints, say)
    assert_same(found.tensors, state(found.step, size))
    assert found.notes == notes(found.step)
    return found.step


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Names, types, shapes and every bit."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        bytes_found, bytes_expected = (t.cpu().contiguous().view(-1).view(torch.uint8) for t in (found[name], tensor))
        assert bytes_found.tolist() == bytes_expected.tolist(), name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def file_of(step: int) -> str:
    return f"step-{step:09d}.safetensors"


class TestRoundTrip:
    def test_tensors_of_every_type_and_shape(self, checkpoints: Checkpoints) -> None:
        generator = torch.Generator().manual_seed(0)
        bits = torch.randint(0, 256, (6, 8), dtype=torch.uint8, generator=generator)
        base = torch.randn(4, 6, generator=generator)
        tensors = {
            **{str(dtype): bits.view(dtype) for dtype in DTYPES},  # NaNs with a payload and denormals among them
            "bool": bits > 127,
            "extremes": torch.tensor([math.inf, -math.inf, math.nan, -0.0, 5e-324], dtype=torch.float64),
            "number": torch.tensor(2**62 + 1),
            "no rows": torch.empty(0, 3),
            "nothing in it": torch.empty(2, 0, 3, dtype=torch.int64),
            "transposed": base.T,
            "every other": base[:, ::2],
            "expanded": torch.tensor([1.5]).expand(5),
            "whole": base,
            "the same again": base,
            "a part of it": base[1:3],
            "learnt": torch.nn.Parameter(torch.ones(2)),
            'sha256":"': torch.ones(1),
            "sha256": torch.ones(1),
            "naïve\n": torch.ones(1),
        }
        checkpoints.write(12_345, tensors, {})
        assert_same(latest(checkpoints).tensors, {name: tensor.detach() for name, tensor in tensors.items()})

    def test_notes_to_the_bit(self, checkpoints: Checkpoints) -> None:
        numbers = [math.inf, -math.inf, math.nan, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 2 / 3]
        written = {
            "numbers": numbers,
            "big": [2**200, -(2**63), 2**53 + 1],
            "plain": [True, False, None, "", [], {}],
            "text": ['"sha256":"' + "0" * 64, "naïve\n\x00", "\ud800"],
            "nested": {"a": {"": [{"b": [[1, 1.0]]}]}},
        }
        checkpoints.write(1, {}, written)
        found = latest(checkpoints)
        assert found.tensors == {}
        assert repr(found.notes) == repr(written)
        assert struct.pack("8d", *found.notes["numbers"]) == struct.pack("8d", *numbers)

    @pytest.mark.parametrize("unfit", [{"a": (1, 2)}, {0: 1.0}, {"a": {0: 1}}, {"a": [np.float64(1.5)]}, {"a": {1, 2}}])
    def test_notes_that_would_come_back_changed_are_refused(
        self, checkpoints: Checkpoints, folder: Path, unfit: dict[Any, Any]
    ) -> None:
        with pytest.raises(TypeError):
            checkpoints.write(1, {}, unfit)
        assert not folder.exists()

    def test_the_file_is_one_that_others_can_read_and_verify(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 12_345)
        assert names(folder) == ["step-000012345.safetensors"]
        path = folder / "step-000012345.safetensors"
        assert_same(load_file(path), state(12_345))
        before, mark, after = path.read_bytes().partition(b'"sha256":"')
        blanked = before + mark + b"0" * 64 + after[64:]
        assert after[:64].decode() == hashlib.sha256(blanked).hexdigest()

    def test_what_was_read_outlives_the_file_and_can_be_changed(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 4)
        found = latest(checkpoints)
        (folder / file_of(4)).write_bytes(b"\xff" * 1000)
        checkpoints.remove()
        assert_same(found.tensors, state(4))
        found.tensors["weights"] += 1
        assert found.tensors["weights"][0] == 5
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.step = 5  # type: ignore[misc]

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_tensors_on_a_gpu(self, checkpoints: Checkpoints) -> None:
        tensors = {name: tensor.cuda() for name, tensor in state(1).items()}
        checkpoints.write(1, {**tensors, "transposed": torch.ones(2, 3, device="cuda").T}, {})
        found = latest(checkpoints).tensors
        assert {tensor.device.type for tensor in found.values()} == {"cpu"}
        assert_same(found, {**state(1), "transposed": torch.ones(3, 2)})


class TestWhichAreKept:
    def test_none_before_the_first(self, checkpoints: Checkpoints, folder: Path) -> None:
        assert checkpoints.latest(must_not_say) is None
        folder.mkdir()
        assert checkpoints.latest(must_not_say) is None

    def test_the_two_newest_by_number(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 8)
        assert names(folder) == [file_of(8)]
        write(checkpoints, 99, 100)
        assert names(folder) == [file_of(99), file_of(100)]
        assert step_found(checkpoints) == 100
        # More digits than the name is filled up to: as text, the longer number comes first.
        write(checkpoints, 999_999_999, 1_000_000_000)
        assert names(folder) == ["step-1000000000.safetensors", "step-999999999.safetensors"]
        assert step_found(checkpoints) == 1_000_000_000

    def test_a_step_written_again_replaces_the_first(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 1, 2)
        checkpoints.write(2, {"other": torch.ones(1)}, {})
        assert names(folder) == [file_of(1), file_of(2)]
        assert list(latest(checkpoints).tensors) == ["other"]

    @pytest.mark.parametrize("following", [15, 20, 25])
    def test_a_damaged_one_does_not_push_out_a_good_one(
        self, checkpoints: Checkpoints, folder: Path, following: int
    ) -> None:
        write(checkpoints, 10, 20)
        (folder / file_of(20)).write_bytes(b"")
        assert step_found(checkpoints, lambda words: None) == 10
        write(checkpoints, following)
        assert names(folder) == [file_of(10), file_of(following)]
        assert step_found(checkpoints) == following
        write(checkpoints, 30)
        assert names(folder) == [file_of(following), file_of(30)]


class TestDamage:
    """Every bit flipped and every length cut to, of a file small enough to try them all."""

    @pytest.fixture
    def good(self, folder: Path) -> bytes:
        """Steps 1 and 2; the file of step 2 is what is damaged."""
        write(Checkpoints(folder, {"a": 1}), 1, 2)
        return (folder / file_of(2)).read_bytes()

    def assert_found_out(self, folder: Path, content: bytes | bytearray, what: object) -> None:
        (folder / file_of(2)).write_bytes(content)
        said: list[str] = []
        assert step_found(Checkpoints(folder, {"a": 1}), said.append) == 1, what
        assert said == [
            f"{folder / file_of(2)}: is damaged or cut short (its checksum does not fit); "
            f"the older {file_of(1)} is used instead"
        ], what

    def test_every_bit(self, folder: Path, good: bytes) -> None:
        assert step_found(Checkpoints(folder, {"a": 1})) == 2
        assert len(good) > 300
        for place in range(8 * len(good)):
            content = bytearray(good)
            content[place // 8] ^= 1 << place % 8
            self.assert_found_out(folder, content, f"bit {place}")

    def test_every_length(self, folder: Path, good: bytes) -> None:
        for length in range(len(good)):
            self.assert_found_out(folder, good[:length], f"length {length}")
        for more in (b"\0", b"\0" * 512, good):
            self.assert_found_out(folder, good + more, f"{len(more)} bytes more")

    def test_sectors_that_were_never_written(self, folder: Path, good: bytes) -> None:
        for start in range(0, len(good) - 1, 16):
            content = bytearray(good)
            content[start : start + 16] = bytes(len(content[start : start + 16]))
            if content != good:
                self.assert_found_out(folder, content, f"zeros from {start}")
        self.assert_found_out(folder, bytes(len(good)), "all zeros")

    def test_a_file_under_another_name(self, folder: Path, good: bytes) -> None:
        (folder / file_of(3)).write_bytes(good)
        said: list[str] = []
        assert step_found(Checkpoints(folder, {"a": 1}), said.append) == 2
        assert len(said) == 1
        assert f"{file_of(3)}: holds step 2, not the one it is named after; the older {file_of(2)} is used" in said[0]

    def test_a_file_of_another_format(self, folder: Path, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as future:
            future.setattr(checkpoint, "FORMAT", 2)
            write(Checkpoints(folder, {"a": 1}), 3)
        said: list[str] = []
        assert step_found(Checkpoints(folder, {"a": 1}), said.append) == 2
        assert f"{file_of(3)}: has format 2, this version reads 1; the older" in said[0]

    def test_a_disk_that_does_not_read(self, folder: Path, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        read_bytes = Path.read_bytes

        def fail_for_the_newest(path: Path) -> bytes:
            if path.name == file_of(2):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read_bytes(path)

        monkeypatch.setattr(Path, "read_bytes", fail_for_the_newest)
        said: list[str] = []
        assert step_found(Checkpoints(folder, {"a": 1}), said.append) == 1
        assert f"{file_of(2)}: cannot be read: Input/output error; the older" in said[0]

    def test_all_of_them(self, folder: Path, good: bytes) -> None:
        for step in (1, 2):
            (folder / file_of(step)).write_bytes(good[:-1])
        with pytest.raises(PspnsError, match="no checkpoint is whole") as caught:
            Checkpoints(folder, {"a": 1}).latest(must_not_say)
        for step in (1, 2):
            assert f"{folder / file_of(step)}: is damaged or cut short" in str(caught.value)
        assert str(caught.value).endswith("; start anew with --overwrite")
        assert len(names(folder)) == 2


class TestKilled:
    """By signal 9, which nothing can be done against: the state must be good at every moment."""

    @pytest.mark.parametrize(
        ("where", "call", "moment", "expected"),
        [
            ("checkpoint.save_file", 1, "before", 2),
            ("checkpoint.save_file", 1, "after", 2),
            ("os.fsync", 1, "before", 2),
            ("os.fsync", 1, "after", 2),
            ("os.replace", 1, "before", 2),
            ("os.replace", 1, "after", 3),
            ("os.fsync", 2, "before", 3),
            ("os.fsync", 2, "after", 3),
            ("os.unlink", 1, "before", 3),
        ],
    )
    def test_at_every_stage(
        self, checkpoints: Checkpoints, folder: Path, where: str, call: int, moment: str, expected: int
    ) -> None:
        write(checkpoints, 1, 2)
        module, name = {"os": os, "checkpoint": checkpoint}[where.partition(".")[0]], where.partition(".")[2]
        real, calls = getattr(module, name), []

        def die(*arguments: Any, **more: Any) -> Any:
            calls.append(arguments)
            if len(calls) == call and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **more)
            if len(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        def work() -> None:
            with checkpoints.lock():
                setattr(module, name, die)  # in the other process only
                write(checkpoints, 3)

        with at_once(work) as (process,):
            process.join(60)
            assert process.exitcode == -signal.SIGKILL
        assert step_found(checkpoints) == expected
        with checkpoints.lock():
            assert not (folder / ".unfinished").exists()
            write(checkpoints, 4)
            assert names(folder) == ["lock", file_of(expected), file_of(4)]

    def test_at_random_moments(self, checkpoints: Checkpoints, folder: Path) -> None:
        size, wait = 100_000, random.Random(0)

        def work() -> None:
            with checkpoints.lock():
                found = checkpoints.latest(must_not_say)
                step = found.step if found else 0
                while True:
                    step += 1
                    checkpoints.write(step, state(step, size), notes(step))

        def newest() -> int:
            return max((int(path.stem.removeprefix("step-")) for path in folder.glob("step-*")), default=0)

        before = 0
        for _ in range(15):
            with at_once(work) as (process,):
                wait_until(lambda: newest() > before + 1)  # noqa: B023
                time.sleep(wait.uniform(0, 0.02))
            assert process.exitcode == -signal.SIGKILL
            found = step_found(checkpoints, size=size)
            assert found == newest()
            # One write at least has ended, and so left two; the next may have been about to remove the third.
            assert len(list(folder.glob("step-*"))) <= 3
            assert set(names(folder)) - {path.name for path in folder.glob("step-*")} <= {"lock", ".unfinished"}
            before = found
        write(checkpoints, before + 1)
        assert len(list(folder.glob("step-*"))) == 2
        assert not (folder / ".unfinished").exists()


@pytest.mark.promise("full-disk-and-signals")
class TestDiskErrors:
    def refusal(self, checkpoints: Checkpoints, folder: Path, size: int = 3) -> str:
        """What is said when step 3 cannot be written; what was there before must be what is there after."""
        before = {path: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(PspnsError) as caught:
            checkpoints.write(3, state(3, size), notes(3))
        assert {path: path.read_bytes() for path in folder.iterdir() if path.name != file_of(3)} == before
        message = str(caught.value)
        assert message.startswith(f"{folder / file_of(3)}: cannot be written: ")
        assert message.endswith("; earlier checkpoints are kept; make room and run again, or choose another --out")
        return message

    @pytest.mark.parametrize(("name", "call"), [("replace", 1), ("fsync", 1), ("fsync", 2), ("mkdir", 1)])
    def test_a_full_disk(
        self, checkpoints: Checkpoints, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
    ) -> None:
        write(checkpoints, 1, 2)
        real, calls = getattr(os, name), []

        def fail(*arguments: Any, **more: Any) -> Any:
            calls.append(arguments)
            if len(calls) == call:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **more)

        with monkeypatch.context() as full:
            full.setattr(os, name, fail)
            assert "No space left on device" in self.refusal(checkpoints, folder)
        # Only the last call fails when the file is in place already; then it is whole.
        in_place = (name, call) == ("fsync", 2)
        assert ((folder / file_of(3)).exists(), step_found(checkpoints)) == (in_place, 3 if in_place else 2)
        write(checkpoints, 4)
        assert step_found(checkpoints) == 4
        assert len(names(folder)) == 2

    def test_a_file_that_the_system_lets_grow_no_further(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 1, 2)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            message = self.refusal(checkpoints, folder, size=100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "File too large" in message
        assert step_found(checkpoints) == 2

    def test_a_path_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        for folder in (tmp_path / "file", tmp_path / "file" / "checkpoints"):
            checkpoints = Checkpoints(folder, IDENTITY)
            with pytest.raises(PspnsError, match=f"^{folder / file_of(1)}: cannot be written: Not a directory"):
                write(checkpoints, 1)
            with pytest.raises(PspnsError, match=f"^{folder}: cannot be used for checkpoints: .*another --out$"):
                checkpoints.lock().__enter__()
            assert checkpoints.latest(must_not_say) is None
        assert (tmp_path / "file").read_text() == "mine"

    def test_a_folder_that_may_not_be_changed(
        self, checkpoints: Checkpoints, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(checkpoints, 1, 2)

        def refuse(*arguments: Any, **more: Any) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        with monkeypatch.context() as read_only:
            read_only.setattr(os, "unlink", refuse)
            with pytest.raises(PspnsError, match=f"^{folder}: cannot be removed: Read-only file system; delete it by"):
                checkpoints.remove()
        assert step_found(checkpoints) == 2

    @pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt()])
    def test_other_errors_leave_nothing_half_done_and_come_through(
        self, checkpoints: Checkpoints, folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        def fail_half_way(tensors: Any, path: Path, **more: Any) -> None:
            path.write_bytes(b"half")
            raise error

        write(checkpoints, 1)
        monkeypatch.setattr(checkpoint, "save_file", fail_half_way)
        with pytest.raises(type(error)) as caught:
            write(checkpoints, 2)
        assert caught.value is error
        assert names(folder) == [file_of(1)]


class TestIdentity:
    def refusal(self, folder: Path, then: dict[str, Any], now: dict[str, Any]) -> str:
        shutil.rmtree(folder, ignore_errors=True)
        write(Checkpoints(folder, then), 7)
        with pytest.raises(SettingsError) as caught:
            Checkpoints(folder, now).latest(must_not_say)
        start, end = f"{folder / file_of(7)}: belongs to another training (", "; start anew with --overwrite"
        message = str(caught.value).replace("use the same settings, or start", "start")
        assert message.startswith(start)
        assert message.endswith(")" + end)
        return message.removeprefix(start).removesuffix(")" + end)

    def test_every_change_is_named(self, folder: Path) -> None:
        then = {"training": {"l2": 1e-4, "loss": "bpr", "steps": None}, "run": {"seeds": [0, 1]}, "old": 1}
        now = {"training": {"l2": 1e-3, "loss": "bpr", "steps": 50}, "run": {"seeds": [0]}, "new": {"a": {"b": 1}}}
        assert self.refusal(folder, then, now).split("; ") == [
            "training.l2: then 0.0001, now 0.001",
            "training.steps: then unset, now 50",
            "run.seeds: then [0, 1], now [0]",
            "old: then 1, now unset",
            "new: then unset, now {'a': {'b': 1}}",
        ]

    def test_more_than_five_are_counted(self, folder: Path) -> None:
        then, now = ({"s": {f"k{n}": n + more for n in range(9)}} for more in (0, 1))
        listed = self.refusal(folder, then, now).split("; ")
        assert listed == [*(f"s.k{n}: then {n}, now {n + 1}" for n in range(5)), "and 4 more"]

    def test_long_values_are_cut_in_the_middle(self, folder: Path) -> None:
        message = self.refusal(folder, {"a": "x" * 500 + "1", "b": 0}, {"a": "x" * 500 + "2", "b": 0})
        assert len(message) < 160
        assert "x1', now 'xx" in message
        assert message.endswith("x2'")

    @pytest.mark.parametrize(
        "now",
        [
            {"b": [1, 2], "a": {"x": math.nan, "y": 1}},
            {"a": {"x": math.nan, "y": 1.0}, "b": (1, 2)},
            {"a": {"x": math.nan, "y": 1, "z": None}, "b": [1, 2]},
        ],
    )
    def test_the_same_in_another_form_is_the_same(self, folder: Path, now: dict[str, Any]) -> None:
        write(Checkpoints(folder, {"a": {"x": math.nan, "y": 1}, "b": (1, 2)}), 7)
        assert step_found(Checkpoints(folder, now)) == 7

    def test_changing_the_dict_afterwards_changes_nothing(self, folder: Path) -> None:
        identity = {"a": {"b": 1}}
        checkpoints = Checkpoints(folder, identity)
        identity["a"]["b"] = 2
        write(checkpoints, 7)
        assert step_found(Checkpoints(folder, {"a": {"b": 1}})) == 7

    def test_a_damaged_file_is_not_asked_who_it_is(self, folder: Path) -> None:
        write(Checkpoints(folder, {"a": 1}), 1)
        write(Checkpoints(folder, {"a": 2}), 2)
        path = folder / file_of(2)
        path.write_bytes(path.read_bytes()[:-1])
        said: list[str] = []
        assert step_found(Checkpoints(folder, {"a": 1}), said.append) == 1
        assert len(said) == 1


class TestRemove:
    def test_everything_goes_at_the_end_of_the_lock(self, checkpoints: Checkpoints, folder: Path) -> None:
        with checkpoints.lock():
            write(checkpoints, 1, 2)
            checkpoints.remove()
            assert names(folder) == ["lock"]
            assert checkpoints.latest(must_not_say) is None
            write(checkpoints, 3)
            assert step_found(checkpoints) == 3
            checkpoints.remove()
        assert not folder.exists()
        checkpoints.remove()  # nothing there is fine

    @pytest.mark.promise("nothing-overwritten")
    def test_foreign_files_survive(self, checkpoints: Checkpoints, folder: Path) -> None:
        write(checkpoints, 1, 2)
        foreign = {
            "notes.txt",
            "model.safetensors",
            "step-1.safetensors",
            "step-0000000000001.safetensors",
            "step-000000001.safetensors.bak",
            "step-٠٠٠٠٠٠٠٠١.safetensors",
        }
        for name in foreign:
            (folder / name).write_text("mine")
        (folder / "step-000000009.safetensors").mkdir()
        with checkpoints.lock():
            write(checkpoints, 3, 4)
            assert step_found(checkpoints) == 4
            checkpoints.remove()
        assert set(names(folder)) == foreign | {"step-000000009.safetensors"}
        assert {(folder / name).read_text() for name in foreign} == {"mine"}


class TestLock:
    def hold(self, checkpoints: Checkpoints) -> Callable[[], None]:
        def work() -> None:
            with checkpoints.lock():
                write(checkpoints, 1)
                time.sleep(60)

        return work

    @pytest.mark.promise("nothing-overwritten")
    def test_a_second_process_is_told_who_writes_there(self, checkpoints: Checkpoints, folder: Path) -> None:
        with at_once(self.hold(checkpoints)) as (holder,):
            wait_until((folder / file_of(1)).exists)
            for _ in range(2):  # asking does not take it
                with pytest.raises(PspnsError) as caught:
                    checkpoints.lock().__enter__()
                message = str(caught.value)
                assert message.startswith(f"{folder}: another run (process {holder.pid} on ")
                assert message.endswith("writes its checkpoints there; wait for its end, or choose another --out")
            assert step_found(checkpoints) == 1
        # The holder was killed: its lock is gone, its file and its number are not.
        assert (folder / "lock").read_text().startswith(f"process {holder.pid} on ")
        with checkpoints.lock():
            assert (folder / "lock").read_text().startswith(f"process {os.getpid()} on ")
            write(checkpoints, 2)
        assert names(folder) == [file_of(1), file_of(2)]

    @pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt()])
    def test_it_is_let_go_whatever_ends_the_block(
        self, checkpoints: Checkpoints, folder: Path, error: BaseException
    ) -> None:
        for _ in range(2):
            with pytest.raises(type(error)), checkpoints.lock():
                raise error
            assert not folder.exists()

    def test_two_folders_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        one, other = (Checkpoints(tmp_path / name, IDENTITY) for name in "ab")
        with one.lock(), other.lock():
            assert names(tmp_path) == ["a", "b"]

    def test_a_lock_file_removed_while_it_was_opened_locks_nothing(
        self, checkpoints: Checkpoints, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flock, files = lock_file._flock, []

        def remove_the_first(file: Any, **how: bool) -> bool:
            files.append(file)
            if len(files) == 1:
                (folder / "lock").unlink()
            return flock(file, **how)

        monkeypatch.setattr(lock_file, "_flock", remove_the_first)
        with checkpoints.lock():
            assert len(files) == 2
            with pytest.raises(PspnsError, match=f"another run \\(process {os.getpid()} on"):
                checkpoints.lock().__enter__()

    def test_a_file_system_without_locks(
        self, checkpoints: Checkpoints, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(file: Any, how: int) -> None:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

        monkeypatch.setattr("fcntl.flock", refuse)
        with checkpoints.lock():
            write(checkpoints, 1)
        assert step_found(checkpoints) == 1
