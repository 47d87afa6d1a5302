"""Files from a seeded generator, most of them damaged: each is read whole, or refused with one clear error."""

from __future__ import annotations

import csv
import gzip
import io
import math
import random
import re
import string
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from guards import guarded
from promises import Cases
from pyarrow import parquet
from scipy import sparse

import pspns
from pspns.errors import DataError

Rows = list[tuple[str, ...]]  # of the cells that were written: user, item, perhaps more

# ---------------------------------------------------------------------------------------------- files that are whole


def make_ids(random: random.Random) -> list[str]:
    letters = random.choice([string.ascii_lowercase, "äöü€漢😀", "aZ09-_.", "ab ,;|:'"])
    kind = random.choice(["numbers", "numbers", "padded", "words", "large"])
    n_ids = random.choice([1, 2, 5, 30])
    return [
        {
            "numbers": str(random.randrange(100)),
            "padded": f"{random.randrange(100):05}",
            "words": "".join(random.choices(letters, k=random.choice([1, 5, 15, 40]))),
            "large": str(random.choice([2**31, 2**63 - 1, 2**63, 2**64, -(2**63)]) + random.randrange(3)),
        }[kind]
        for _ in range(n_ids)
    ]


def make_rows(random: random.Random, *, forbidden: str = "", n_columns: int | None = None) -> Rows:
    """Cells as text; the third is a rating, the fourth a time."""
    users, items = (
        ["".join(c for c in text if c not in forbidden).strip() or "x" for text in make_ids(random)] for _ in range(2)
    )
    width = n_columns or random.choice([2, 2, 3, 4])
    more = lambda: (f"{random.randrange(1, 11) / 2:g}", str(random.randrange(10**9, 2 * 10**9)))[: width - 2]  # noqa: E731
    return [
        (random.choice(users), random.choice(items), *more()) for _ in range(random.choice([1, 2, 10, 60, 60, 300]))
    ]


def as_text(rows: Rows, random: random.Random, separator: str, header: list[str] | None) -> bytes:
    end = random.choice(["\n", "\n", "\n", "\r\n", "\r"])
    lines = [separator.join(row) for row in rows]
    if header:
        lines.insert(0, separator.join(header[: len(rows[0])]))
    if random.random() < 0.1:
        lines.insert(random.randrange(len(lines) + 1), "")
    text = end.join(lines) + random.choice([end, ""])
    return (b"\xef\xbb\xbf" if random.random() < 0.1 else b"") + text.encode()


NAMES = ["user", "item", "rating", "time"]


def make_csv(random: random.Random, path: Path) -> set[tuple[str, str]]:
    rows = make_rows(random, forbidden=',"')
    path.write_bytes(as_text(rows, random, ",", NAMES))
    return pairs_of(rows)


def make_quoted_csv(random: random.Random, path: Path) -> set[tuple[str, str]]:
    odd = ['say "hi"', "a,b", "two\nlines", "", '""', "\r\n,"]
    rows = [(*row, random.choice(odd)) for row in make_rows(random)]
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), lineterminator="\n")
    writer.writerows([[*NAMES[: len(rows[0]) - 1], "note"], *rows])
    path.write_bytes(file.getvalue().encode())
    return pairs_of(rows)


def make_tsv(random: random.Random, path: Path) -> set[tuple[str, str]]:
    rows = make_rows(random, forbidden='\t"')
    path.write_bytes(as_text(rows, random, "\t", NAMES))
    return pairs_of(rows)


def make_double_colon(random: random.Random, path: Path) -> set[tuple[str, str]]:
    rows = make_rows(random, forbidden=':"\t,;|', n_columns=4)
    path.write_bytes(as_text(rows, random, "::", NAMES))
    return pairs_of(rows)


def make_inter(random: random.Random, path: Path) -> set[tuple[str, str]]:
    rows = make_rows(random, forbidden='\t"')
    types = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    path.write_bytes(as_text(rows, random, "\t", types))
    return pairs_of(rows)


def make_rating(random: random.Random, path: Path) -> set[tuple[str, str]]:
    """NCF's files have no header, and numbers only."""
    rows = [
        (str(random.randrange(50)), str(random.randrange(50)), str(random.randrange(1, 6)), str(10**9 + number))
        for number in range(random.choice([1, 2, 10, 60, 300]))
    ]
    path.write_bytes(as_text(rows, random, "\t", None))
    return pairs_of(rows)


def make_lines(random: random.Random, path: Path) -> set[tuple[str, str]]:
    users, items = ([re.sub(r"\s|\W", "", text) or "x" for text in make_ids(random)] for _ in range(2))
    # Every line ends in a blank, as published files do; without, few short lines look like a table.
    lines = [[random.choice(users), *random.choices(items, k=random.choice([1, 1, 3, 20]))] for _ in range(60)]
    path.write_text("".join(f"{' '.join(words)} \n" for words in lines), encoding="utf-8")
    return {(user, item) for user, *items in lines for item in items}


def make_parquet(random: random.Random, path: Path) -> set[tuple[str, str]]:
    rows = make_rows(random)
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=False))
    table = pa.table({name: _typed(values, random) for name, values in columns.items()})
    if random.random() < 0.3:
        pl.DataFrame(table).write_parquet(path, row_group_size=random.choice([None, 20]))
    else:
        parquet.write_table(
            table,
            path,
            row_group_size=random.choice([None, 20]),
            compression=random.choice(["none", "snappy", "zstd", "gzip"]),
            use_dictionary=random.random() < 0.5,
            data_page_version=random.choice(["1.0", "2.0"]),
            data_page_size=random.choice([None, 64]),
            write_page_checksum=random.random() < 0.3,
            write_statistics=random.random() < 0.5,
        )
    return pairs_of(rows)


def _typed(values: list[str], random: random.Random) -> Any:
    if all(str(_number(value)) == value for value in values) and random.random() < 0.7:
        return pa.array([int(value) for value in values])
    kind = random.choice([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
    return pa.array(values).cast(kind)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def make_matrix(random: random.Random, path: Path) -> set[tuple[str, str]]:
    shape = random.choice([(1, 1), (3, 40), (40, 3), (20, 20)])
    dense = np.random.default_rng(random.randrange(2**32)).random(shape) < 0.3
    dense[0, 0] = True
    matrix = sparse.coo_array(dense.astype(random.choice(["int8", "int64", "float32", "float64", "bool"])))
    kind = random.choice(["csr", "csc", "coo", "bsr", "dia"])
    sparse.save_npz(path, matrix.asformat(kind), compressed=random.random() < 0.5)
    return {(str(row), str(column)) for row, column in zip(*dense.nonzero(), strict=True)}


def pairs_of(rows: Rows) -> set[tuple[str, str]]:
    return {(user, item) for user, item, *_ in rows}


MAKERS: dict[str, Callable[[random.Random, Path], set[tuple[str, str]]]] = {
    "x.csv": make_csv,
    "quoted.csv": make_quoted_csv,
    "x.tsv": make_tsv,
    "x.dat": make_double_colon,
    "x.inter": make_inter,
    "x.rating": make_rating,
    "x.txt": make_lines,
    "x.parquet": make_parquet,
    "x.npz": make_matrix,
    "x.csv.gz": make_csv,
    "x.csv.zst": make_csv,
    "x.zip": make_csv,
}

# ------------------------------------------------------------------------------------------------------------ damage

INSERTS = [b"\0", b"\0" * 50, b'"', b'""', b"\n", b"\r", b"\n\n", b",", b"\t", b"::", b";", b" ", b"\xff", b"\xc3"]
INSERTS += [
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1f",
    b"\x1a",
    b"\\",
    b"'",
    b"\xed\xa0\x80",
    b"x" * 5000,
    b"\n,\n",
    b"\x85",
]
NUMBERS = [b"9" * 400, b"1e999", b"-1", b"nan", b"inf", b"1e30", b"0.5", b"18446744073709551616", b"-0", b"2020-01-01"]


def damage(content: bytes, random: random.Random) -> bytes:
    """The content with one thing wrong; it may do no harm."""
    place, other = sorted(random.choices(range(len(content) + 1), k=2))
    block = content[place:other]
    match random.randrange(14):
        case 0 | 1:
            flipped = bytearray(content)
            for _ in range(random.choice([1, 1, 3, 8])):
                flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
            return bytes(flipped)
        case 2:
            return content[:place]
        case 3:
            return content[:place] + content[other:]
        case 4:
            return content + content
        case 5:
            return content[:place] + block[:100] + content[place:]
        case 6:
            return content[:place] + bytes(len(block[:100])) + content[place + len(block[:100]) :]
        case 7 | 8 | 9:
            return content[:place] + random.choice(INSERTS) + content[place:]
        case 10:
            return content[:place] + content[other:] + block
        case 11:
            lines = content.splitlines(keepends=True)
            return b"".join([*lines, lines[0]]) if lines else b""
        case 12:
            return re.sub(rb"[0-9.]+", random.choice(NUMBERS), content, count=random.choice([1, 2, 3]))
        case _:
            return content[:place] + random.randbytes(len(block[:50])) + content[place + len(block[:50]) :]


def damage_matrix(content: bytes, random: random.Random) -> bytes:
    """One of the arrays damaged, and the archive made again, so that its checksums hold."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = random.choice(sorted(arrays))
    array = arrays[name]
    match random.randrange(5):
        case 0:
            del arrays[name]
        case 1 if array.size and array.dtype.kind in "iuf":
            array.flat[random.randrange(array.size)] = random.choice([0, 1, 7, 100])
        case 2 if array.dtype.kind in "if":
            array.flat[random.randrange(array.size)] = -1
        case 3:
            arrays[name] = array.reshape(-1)[: array.size // 2]
        case _:
            arrays[name] = (
                array.astype(random.choice(["float64", "int8", "str"])) if array.dtype.kind in "iuf" else array
            )
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def pack(content: bytes, name: str) -> bytes:
    match Path(name).suffix:
        case ".gz":
            return gzip.compress(content)
        case ".zst":
            return bytes(pa.compress(content, codec="zstd", asbytes=True))
        case ".zip":
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("x.csv", content)
            return file.getvalue()
        case _:
            return content


# ------------------------------------------------------------------------------------------------- what was in there


def unpack(path: Path) -> bytes:
    match path.suffix:
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".zst":
            with pa.input_stream(str(path), compression="zstd") as stream:
                return bytes(stream.read())
        case ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(archive.infolist()[0])
        case _:
            return path.read_bytes()


def rows_in(path: Path, facts: str) -> list[tuple[str, str]]:
    """The user and item of every row, by other readers than ours; `facts` tell what ours took the file for."""
    if path.suffix == ".npz":
        matrix = sparse.coo_array(sparse.load_npz(path))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return [(str(row), str(column)) for row, column in zip(*matrix.coords, strict=True)]
    if path.suffix == ".parquet":
        names = {shown(name): name for name in parquet.read_schema(path).names}
        user, item = names[label(facts, "user")], names[label(facts, "item")]
        columns = parquet.read_table(path, columns=[user, item]).to_pydict()
        return list(zip(map(str, columns[user]), map(str, columns[item]), strict=True))
    text = unpack(path).decode("utf-8-sig", errors="surrogateescape")
    if "each line read as a user followed by their items" in facts:
        lines = [re.split("[ \t]+", line.strip(" \t")) for line in re.split("\r\n|\r|\n", text)]
        assert sum(len(words) == 1 and words != [""] for words in lines) == number(facts, "lines? with a user but no")
        return [(user, item) for user, *items in lines for item in items]
    rows = cells(text, path, facts)
    has_header = "no header line" not in facts
    labels = [shown(re.sub(":(token|float)(_seq)?$", "", cell.strip())) for cell in rows[0]]
    labels = labels if has_header else [str(place) for place in range(len(rows[0]))]
    places = {role: labels.index(label(facts, role)) for role in NAMES if f"{role} = " in facts}
    for row in rows[has_header:]:
        assert "rating" not in places or math.isfinite(float(row[places["rating"]]))
    return [(row[places["user"]], row[places["item"]]) for row in rows[has_header:]]


def cells(text: str, path: Path, facts: str) -> list[list[str]]:
    by_name = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "double colon": "::", "blank": " "}
    guessed = re.search(r"columns separated by ([a-z ]+) \(guessed\)", facts)
    promised = "\t" if path.suffix in (".tsv", ".inter", ".rating") else ","
    separator = by_name[guessed[1]] if guessed else promised
    if len(separator) > 1:
        assert "\x1f" not in text
        text, separator = text.replace(separator, "\x1f"), "\x1f"
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row]


def label(facts: str, role: str) -> str:
    """How messages call the column that has a role: 'a name' or a position."""
    found = re.search(rf"\b{role} = ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d+)", facts)
    assert found, facts
    return found[1]


def shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:79]}…")


def number(facts: str, what: str) -> int:
    found = re.search(rf"([\d,]+) {what}", facts)
    return int(found[1].replace(",", "")) if found else 0


# ------------------------------------------------------------------------------------------------------------- tests


def write_case(name: str, number: int, folder: Path) -> tuple[Path, set[tuple[str, str]] | None]:
    """The file, and its pairs where nothing is wrong with it."""
    case = random.Random(f"{name} {number}")
    path = folder / name
    pairs = MAKERS[name](case, path)
    whole = path.read_bytes()
    if number % 5 == 0:
        path.write_bytes(pack(whole, name))
        return path, pairs
    if name == "x.npz" and case.random() < 0.5:
        path.write_bytes(damage_matrix(whole, case))
    elif case.random() < 0.5:
        path.write_bytes(pack(damage(whole, case), name))
    else:
        path.write_bytes(damage(pack(whole, name), case))
    return path, None


@pytest.mark.promise("generated-files", cases=Cases(200, long=2000))
@pytest.mark.parametrize("name", MAKERS)
def test_files_are_read_whole_or_refused(tmp_path, name, case_counter):
    for number_ in range(case_counter.planned):
        path, expected = write_case(name, number_, tmp_path)
        what = f"{name}, number {number_}"
        case_counter.count()
        error = None
        with guarded(path):
            try:
                found = pspns.load(path, format=format_of(path))
            except DataError as refused:
                error = refused
        if error is not None:
            assert expected is None, f"{what}: {error}"
            assert str(error).startswith(str(path)), f"{what}: {error}"
            continue
        pairs = list(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))
        as_texts = {(str(user), str(item)) for user, item in pairs}
        facts = "; ".join(found.facts)
        rows = rows_in(path, facts)
        assert as_texts == set(rows), what
        assert len(pairs) == len(as_texts), what
        assert len(pairs) + number(facts, "repeated rows? merged") == len(rows), what
        assert expected is None or as_texts == expected, what


def format_of(path: Path) -> str | None:
    """Lines are guessed only where all words are numbers."""
    return "lines" if path.suffix == ".txt" else None


@pytest.fixture(scope="module", autouse=True)
def all_is_imported(tmp_path_factory):
    """What the first reading imports would count as memory that a file took."""
    for name in MAKERS:
        path, _ = write_case(name, 0, tmp_path_factory.mktemp("first"))
        pspns.load(path, format=format_of(path))


# In a process of its own: memory that writing leaves behind would hide what reading takes.
WRITE_LARGE = """
import sys, numpy, polars
rng = numpy.random.default_rng(0)
n_rows = int(sys.argv[2])
frame = polars.DataFrame({
    "user": rng.integers(0, 200_000, n_rows),
    "item": rng.integers(0, 50_000, n_rows),
    "time": rng.integers(10**9, 2 * 10**9, n_rows),
})
if sys.argv[1].endswith("csv"):
    frame.write_csv(sys.argv[1])
else:
    frame.write_parquet(sys.argv[1], compression="uncompressed")
print(frame.select("user", "item").n_unique())
"""


@pytest.mark.parametrize(("name", "n_rows"), [("x.csv", 2_600_000), ("x.parquet", 3_000_000)])
def test_large_files_fit_in_memory(tmp_path, name, n_rows):
    path = tmp_path / name
    command = [sys.executable, "-c", WRITE_LARGE, path, str(n_rows)]
    n_pairs = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert 50e6 < path.stat().st_size < 75e6
    with guarded(path):
        found = pspns.load(path)
    assert len(found) == n_pairs


class TestBombs:
    """Small files that unpack to much."""

    @pytest.mark.parametrize(
        ("name", "line"),
        [
            ("x.csv.gz", b"1,2\n"),
            ("x.csv.gz", b'"1",2\n'),
            ("x.csv.gz", bytes(64)),
            ("x.csv.zst", b'"1",2\n'),
            ("x.zip", b"1,2\n"),
            ("x.txt.gz", b"1 2 3\n4 5\n"),
            ("x.parquet.gz", bytes(64)),
        ],
        ids=["rows", "quotes", "zeros", "zstd", "zip", "lines", "parquet"],
    )
    def test_packed_text(self, tmp_path, name, line):
        path = tmp_path / name
        ten_mb = line * (10_000_000 // len(line))
        # Packed once, and written often: gzip and zstd join what follows each other.
        path.write_bytes(pack(15 * ten_mb, name) if name == "x.zip" else 30 * pack(ten_mb, name))
        assert path.stat().st_size < 1e6
        with guarded(path), pytest.raises(DataError) as error:
            pspns.load(path)
        assert str(error.value).startswith(f"{path}: unpacks to more than 200 times its size")

    def test_many_rows_in_a_small_parquet_file(self, tmp_path):
        same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000_000, np.int8)), pa.array(["a"]))
        rows = pa.table({"user": same, "item": same})
        path = tmp_path / "x.parquet"
        with parquet.ParquetWriter(path, rows.schema) as file:
            for _ in range(4):
                file.write_table(rows)
        assert path.stat().st_size < 1e6
        claim = r"x.parquet: claims 40,000,000 rows in [\d,]+ bytes, as files do that .* each pair once"
        with guarded(path), pytest.raises(DataError, match=claim):
            pspns.load(path)

    def test_a_long_text_for_many_rows(self, tmp_path):
        # 4 GB if each row had a text of its own.
        text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["x" * 4000]))
        path = tmp_path / "x.parquet"
        parquet.write_table(pa.table({"user": text, "item": text}), path, store_schema=False)
        with guarded(path):
            found = pspns.load(path)
        assert found.user_ids.tolist() == ["x" * 4000]

    def test_a_page_of_zeros(self, tmp_path):
        path = tmp_path / "x.parquet"
        columns = {"user": np.zeros(9_000_000, np.int64), "item": np.zeros(9_000_000, np.int64)}
        at_once = {"row_group_size": 9_000_000, "data_page_size": 1 << 30, "use_dictionary": False}
        parquet.write_table(pa.table(columns), path, compression="zstd", **at_once)
        with (
            guarded(path),
            pytest.raises(DataError, match=r"x.parquet: unpacks to 144,[\d,]+ bytes from [\d,]+, as files do"),
        ):
            pspns.load(path)

    def test_arrays_of_zeros(self, tmp_path):
        path = tmp_path / "x.npz"
        zeros = np.zeros(10_000_000, np.int64)
        np.savez_compressed(path, format=b"coo", shape=(1, 1), row=zeros, col=zeros, data=zeros)
        with guarded(path), pytest.raises(DataError, match=r"x.npz: unpacks to 240,[\d,]+ bytes, more than 200 times"):
            pspns.load(path)
