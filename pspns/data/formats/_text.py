"""Text files as streams of UTF-8, whatever they are packed in: nothing is held but the piece that is looked at."""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import pyarrow as pa

from pspns.errors import DataError, SettingsError

PACKED = (".gz", ".zst", ".zip")

LONGEST_LINE = 4 << 20  # bytes; a longer one is no line of a table, and would be held whole

# Text packs three to twenty times; a thousand times is a file made to fill a memory or a disk.
_UNPACKED_FREELY = 64 << 20
_UNPACKED_PER_BYTE = 200

# All that the decompressors and the zip module were seen to raise for damaged files.
_UNPACKING_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    MemoryError,
    RuntimeError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
)


@dataclass(frozen=True)
class TextFile:
    """A file of text; its text form is its path, with which every message begins."""

    path: Path
    encoding: str | None = None  # unset: UTF-8

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                "".encode(self.encoding)  # unlike a look-up, it knows that hex is none for text
            except (LookupError, ValueError) as error:
                raise SettingsError(
                    f"no encoding named '{self.encoding}'; expected one that Python knows, such as utf-8, utf-16 or "
                    "latin-1"
                ) from error

    def __str__(self) -> str:
        return str(self.path)

    def open_bytes(self) -> BinaryIO:
        """The content as UTF-8, or as it is where no encoding is set."""
        stream = open_bytes(self.path)
        if self.encoding is None:
            return stream
        return cast(BinaryIO, io.BufferedReader(_Recoded(stream, self.path, self.encoding)))

    def open_text(self, errors: str = "replace") -> TextIO:
        """Lines as they end in the file; bytes that are not UTF-8 become �, to be complained of elsewhere."""
        raw = io.BufferedReader(cast(io.RawIOBase, self.open_bytes()))
        return io.TextIOWrapper(raw, encoding="utf-8-sig", errors=errors, newline="")

    def lines(self, errors: str = "replace") -> Iterator[str]:
        with errors_name(self.path), closing(self.open_text(errors)) as text:
            for number, line in enumerate(iter(lambda: text.readline(LONGEST_LINE), ""), start=1):
                if len(line) == LONGEST_LINE:
                    raise DataError(
                        f"{self}, line {number:,}: is longer than {LONGEST_LINE >> 20} MiB; expected a text file with "
                        "a line for each row"
                    )
                yield line

    def head(self, n_lines: int) -> list[str]:
        """The first lines: so many, or fewer where they are long."""
        head: list[str] = []
        n_characters = 0
        for line in itertools.islice(self.lines(), n_lines):
            head.append(line)
            n_characters += len(line)
            if n_characters > LONGEST_LINE:
                break
        return head

    def blocks(self) -> Iterator[bytes]:
        with errors_name(self.path), closing(self.open_bytes()) as stream:
            yield from iter(lambda: stream.read(1 << 20), b"")

    def check_whole(self) -> None:
        """Read a packed file to its end, so that damage, or a size made to do harm, shows before all else."""
        if self.path.suffix.lower() in PACKED or archive_of(self.path):
            for _ in self.blocks():
                pass

    def refuse_other_kinds(self) -> None:
        """UTF-16, UTF-32 and packed files begin with marks that no UTF-8 text begins with."""
        if self.encoding is not None:
            return
        with errors_name(self.path), closing(open_bytes(self.path)) as stream:
            begin = stream.read(8)
        for mark, name in _ENCODING_MARKS.items():
            if begin.startswith(mark):
                raise DataError(
                    f"{self}: the file is {name}, not UTF-8; set encoding to {name.lower()} (on the command line: "
                    f"--encoding {name.lower()}), or save it as UTF-8"
                )
        for mark, (kind, advice) in _KIND_MARKS.items():
            if begin.startswith(mark):
                inside = "what is packed in it" if self.path.suffix.lower() in PACKED else "the file"
                raise DataError(f"{self}: {inside} is {kind}, not text; {advice}")

    def not_utf8(self) -> DataError | None:
        """The error for the first line that is not UTF-8, if there is one."""
        for number, line in enumerate(self.lines(errors="surrogateescape"), start=1):
            if wrong := _NOT_UTF8.search(line):
                return DataError(
                    f"{self}, line {number:,}: byte {ord(wrong[0]) - 0xDC00:#04x} is not UTF-8; expected a UTF-8 file: "
                    "save it as one, or set encoding, such as latin-1"
                )
        return None


_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of such a byte

# The longer marks first: that of UTF-32 begins with that of UTF-16.
_ENCODING_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

# How other files begin → what they are, and what to do.
_KIND_MARKS = {
    b"\x1f\x8b": ("packed by gzip", "unpack it, or let its name end in .gz"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", "unpack it, or let its name end in .zst"),
    b"PK\x03\x04": ("a zip archive or a spreadsheet", "let an archive's name end in .zip, save a spreadsheet as CSV"),
    b"PAR1\x15": ("Parquet", "let its name end in .parquet, or set format to parquet"),
}


def exists(path: Path) -> bool:
    """Does it lie there, or inside a .zip that does?"""
    with errors_name(path):
        return path.exists() or archive_of(path) is not None


def check_is_file(path: Path) -> None:
    """Pipes, devices and folders are refused: opening a pipe may wait for ever."""
    with errors_name(path):
        mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise DataError(f"{path}: is {kind}; expected a file, since it is read more than once")


def archive_of(path: Path) -> tuple[Path, str] | None:
    """For `plays.zip/2024/plays.csv`: the archive, and the name inside it."""
    for parent in path.parents:
        if parent.suffix.lower() == ".zip" and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return None


def bare_name(path: Path) -> Path:
    """The path without the suffix of a compression; an archive is not opened only because it lies there.

    >>> bare_name(Path("ratings.csv.zip")).name
    'ratings.csv'
    """
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def unpacked_name(path: Path) -> Path:
    """The path without the suffix of a compression; of an archive the name of the one file inside.

    >>> unpacked_name(Path("ratings.csv.gz")).name
    'ratings.csv'
    """
    match path.suffix.lower():
        case ".zip" if path.is_file():
            with errors_name(path), zipfile.ZipFile(path) as archive:
                # Its last word alone: names in an archive are the sender's, and lead nowhere.
                return path.with_name(Path(_only_member(archive, path)).name)
        case ".gz" | ".zst" | ".zip":
            return path.with_suffix("")
        case _:
            return path


def open_bytes(path: Path) -> BinaryIO:
    """The file's content as a stream of bytes, unpacked where its suffix says it is packed."""
    packed = path.suffix.lower()
    inside = archive_of(path)
    check_is_file(inside[0] if inside else path)
    with errors_name(path):
        if packed != ".zip" and inside is None:
            compression = {".gz": "gzip", ".zst": "zstd"}.get(packed)
            stream = cast(BinaryIO, pa.input_stream(str(path), compression=compression))
            return stream if compression is None else _guarded(stream, path)
        file, member = inside or (path, None)
        archive = zipfile.ZipFile(file)
        try:
            stream = cast(BinaryIO, archive.open(member or _only_member(archive, path)))
        except KeyError as error:
            names = ", ".join(info.filename for info in archive.infolist()[:20])
            raise DataError(f"{file}: holds no file '{member}'; it holds: {names}") from error
        return _guarded(stream, file)


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """What the operating system or a decompressor refuses becomes a DataError that begins with the path."""
    try:
        yield
    except _UNPACKING_ERRORS as error:
        # An invalid argument is what systems answer to a place before the begin of a file, as damaged archives name.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise DataError(f"{path}: cannot be read: {os.strerror(error.errno)}") from error
        raise DataError(
            f"{path}: cannot be read: it is damaged, locked, or not what its suffix says ({in_one_line(error)}); get "
            "it again, or unpack it with the program that packed it"
        ) from error


def in_one_line(error: BaseException) -> str:
    """What a library says, without its line ends, and not at length."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    files = [info.filename for info in archive.infolist() if not info.is_dir()]
    # Systems add files of their own, unseen.
    names = [name for name in files if not name.startswith("__MACOSX/") and not Path(name).name.startswith(".")]
    if len(names) != 1:
        found = ", ".join(names[:20]) or "nothing"
        raise DataError(
            f"{path}: expected one file in the archive, found {found}; name the one that is meant as {path.name}/NAME"
        )
    return names[0]


def _guarded(stream: BinaryIO, path: Path) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Unpacked(stream, path), buffer_size=1 << 20))


class _Unpacked(io.RawIOBase):
    """An unpacked stream that names its file when it is damaged, and refuses to grow without bounds."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self._left = _UNPACKED_FREELY + _UNPACKED_PER_BYTE * path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with errors_name(self._path):
            content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        self._left -= len(content)
        if self._left < 0:
            raise DataError(
                f"{self._path}: unpacks to more than {_UNPACKED_PER_BYTE} times its size, as files do that are made to "
                "fill a memory; if it is what you want, unpack it first"
            )
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Recoded(io.RawIOBase):
    """A stream of another encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, path: Path, encoding: str) -> None:
        self._stream, self._path, self._encoding = stream, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._n_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._stream.read(1 << 18)
            try:
                self._ready = self._decoder.decode(block, final=not block).encode()
            except (UnicodeError, ValueError) as error:
                raise DataError(
                    f"{self._path}: after about {self._n_read:,} bytes: is not {self._encoding} ({error}); set "
                    "encoding to the file's own"
                ) from error
            self._n_read += len(block)
            if not block:
                break
        n_bytes = min(len(buffer), len(self._ready))
        buffer[:n_bytes], self._ready = self._ready[:n_bytes], self._ready[n_bytes:]
        return n_bytes

    def close(self) -> None:
        self._stream.close()
        super().close()
