"""A file held by one, or shared by several; the last who has it removes it, and whoever removes folders meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pspns import lock_file
from pspns.lock_file import HeldError, held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "lock"


def test_one_holds_it_alone(path: Path) -> None:
    with held(path):
        for shared in (False, True):
            with pytest.raises(HeldError, match=r"process \d+ on "), held(path, shared=shared):
                pass
    assert not path.exists()


def test_several_share_it_and_it_goes_with_the_last(path: Path) -> None:
    with held(path, shared=True):
        with held(path, shared=True), pytest.raises(HeldError), held(path):
            pass
        assert path.exists()
        with pytest.raises(HeldError), held(path):
            pass
    assert not path.exists()
    with held(path):
        pass


@pytest.mark.parametrize("times", [1, 5])
def test_a_folder_that_goes_while_it_is_made_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    made = []
    real = Path.mkdir

    def make_and_remove(self: Path, *how: Any, **more: Any) -> None:
        real(self, *how, **more)
        made.append(self)
        if len(made) <= times:
            self.rmdir()

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", make_and_remove)
        with held(path):
            assert path.exists()
    assert len(made) > times


def test_a_folder_that_can_never_be_made_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *how: Any, **more: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(lock_file, "TRIES", 5)
    with pytest.raises(FileNotFoundError), held(path):
        pass
