"""Text files as streams: packed, in archives, in other encodings, damaged, and made to burst."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pspns
from pspns.data.formats import _text
from pspns.data.formats._text import TextFile, open_bytes, unpacked_name
from pspns.data.formats.delimited import _Replaced
from pspns.errors import DataError, SettingsError

CONTENT = b"user,item\na,b\nc,d\n"


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


@pytest.mark.promise("archives")
class TestArchives:
    def test_the_only_file_is_read_and_names_its_format(self, tmp_path):
        path = zipped(tmp_path / "plays.zip", **{"deep__ratings.tsv": CONTENT.replace(b",", b"\t")})
        assert unpacked_name(path).name == "ratings.tsv"
        assert pairs(pspns.load(path)) == {("a", "b"), ("c", "d")}

    def test_files_that_systems_add_are_not_seen(self, tmp_path):
        path = zipped(tmp_path / "x.zip", **{"x.csv": CONTENT, "__MACOSX/._x.csv": b"junk", ".DS_Store": b"junk"})
        assert pairs(pspns.load(path)) == {("a", "b"), ("c", "d")}

    def test_of_several_one_is_named(self, tmp_path):
        path = zipped(tmp_path / "x.zip", **{"x.csv": CONTENT, "old__x.csv": b"user,item\n1,2\n"})
        with pytest.raises(DataError, match=r"expected one file .* found x.csv, old/x.csv; .* x.zip/NAME"):
            pspns.load(path)
        assert pairs(pspns.load(path / "old" / "x.csv")) == {(1, 2)}
        with pytest.raises(DataError, match=r"x\.zip: holds no file 'new/x\.csv'; it holds: x\.csv, old/x\.csv"):
            pspns.load(path / "new" / "x.csv")

    def test_an_empty_one(self, tmp_path):
        with pytest.raises(DataError, match="found nothing"):
            pspns.load(zipped(tmp_path / "x.zip"))

    @pytest.mark.parametrize("name", ["../../outside.csv", "/outside.csv", "a/../../outside.csv"])
    def test_names_that_lead_outside_write_nothing(self, tmp_path, name):
        path = tmp_path / "in" / "x.zip"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, CONTENT)
        before = sorted(tmp_path.rglob("*"))
        assert pairs(pspns.load(path)) == {("a", "b"), ("c", "d")}
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_link_is_its_text_not_its_target(self, tmp_path):
        (tmp_path / "secret.csv").write_bytes(CONTENT)
        info = zipfile.ZipInfo("x.csv")
        info.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr(info, str(tmp_path / "secret.csv"))
        with pytest.raises(DataError, match="single column"):
            pspns.load(tmp_path / "x.zip")

    def test_damage_and_secrets_are_refused(self, tmp_path):
        good = zipped(tmp_path / "good.zip", **{"x.csv": CONTENT * 100}).read_bytes()
        path = tmp_path / "x.zip"
        path.write_bytes(good[: len(good) // 2])
        with pytest.raises(DataError, match=r"x\.zip: cannot be read"):
            pspns.load(path)
        flipped = bytearray(good)
        flipped[45] ^= 255  # inside the packed bytes
        path.write_bytes(flipped)
        with pytest.raises(DataError, match=r"x\.zip"):
            pspns.load(path)
        locked = bytearray(good)
        for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            locked[good.index(mark) + place] |= 1  # the bit that says "encrypted"
        path.write_bytes(locked)
        with pytest.raises(DataError, match="encrypted"):
            pspns.load(path)


@pytest.mark.promise("archives")
class TestUnpackedSize:
    @pytest.mark.parametrize("suffix", [".gz", ".zst", ".zip"])
    def test_a_bomb_is_refused(self, tmp_path, monkeypatch, suffix):
        monkeypatch.setattr(_text, "_UNPACKED_FREELY", 1 << 20)
        content = b"user,item\n" + b"1,2\n" * 2_000_000
        path = tmp_path / f"x.csv{suffix}"
        if suffix == ".zip":
            zipped(path, **{"x.csv": content})
        else:
            packed = gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True)
            path.write_bytes(packed)
        assert path.stat().st_size * 200 + (1 << 20) < len(content)
        with pytest.raises(DataError, match=r"unpacks to more than 200 times its size.*unpack it first"):
            pspns.load(path)

    def test_what_packs_well_is_read(self, tmp_path):
        path = tmp_path / "x.csv.gz"
        path.write_bytes(gzip.compress(b"user,item\n" + b"1,2\n" * 500_000))
        assert len(pspns.load(path)) == 1

    def test_one_endless_line_is_not_held(self, tmp_path):
        path = tmp_path / "x.csv.gz"
        path.write_bytes(gzip.compress(b"a" * (20 << 20)))
        with pytest.raises(DataError, match="line 1: is longer than 4 MiB"):
            pspns.load(path)


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"])
    def test_are_read_when_told(self, tmp_path, encoding):
        path = tmp_path / "x.csv"
        path.write_bytes("user,item\nJosé,ü\nJosé,é\n".encode(encoding))
        assert pairs(pspns.load(path, encoding=encoding)) == {("José", "ü"), ("José", "é")}

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    @pytest.mark.parametrize("name", ["x.csv", "x.txt"])
    def test_marks_are_recognised(self, tmp_path, encoding, name):
        path = tmp_path / name
        path.write_bytes("user,item\na,b\n".encode(encoding))
        with pytest.raises(DataError, match=f"is {encoding.upper()}, not UTF-8; set encoding to {encoding}"):
            pspns.load(path)

    def test_an_unknown_one(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(CONTENT)
        with pytest.raises(SettingsError, match="no encoding named 'utf-99'"):
            pspns.load(tmp_path / "x.csv", encoding="utf-99")

    def test_another_than_told(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(CONTENT + b"\xd8\x00")
        with pytest.raises(DataError, match=r"x\.csv: after about \d+ bytes: is not utf-16-be"):
            pspns.load(tmp_path / "x.csv", encoding="utf-16-be")

    def test_a_long_file_is_recoded_piece_by_piece(self, tmp_path):
        text = "".join(f"ü{n},é\n" for n in range(60_000))
        (tmp_path / "x.csv").write_text(text, encoding="utf-16")
        with TextFile(tmp_path / "x.csv", "utf-16").open_bytes() as stream:
            assert stream.read().decode() == text


def test_lines_in_a_file_of_lines_name_their_bytes(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(b"0 1 2\n1 \xff\n")
    with pytest.raises(DataError, match=r"train\.txt, line 2: byte 0xff is not UTF-8"):
        pspns.load(path, format="lines")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.csv: cannot be read"):
        open_bytes(tmp_path / "nothing.csv")


class Trickle(io.RawIOBase):
    """Gives as many bytes as it likes."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self.content, self.sizes = content, sizes

    def read(self, size: int = -1) -> bytes:
        wanted = min(size, self.sizes.pop() if self.sizes else size)
        block, self.content = self.content[:wanted], self.content[wanted:]
        return block


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from([b":", b"::", b"a", b"\n", b"^|^", b"^|", b"^"]), max_size=40).map(b"".join),
    st.sampled_from([b"::", b"^|^", b":::"]),
    st.lists(st.integers(1, 5), max_size=60),
    st.integers(4, 16),
)
def test_long_separators_are_replaced_wherever_reading_cuts_them(content, word, sizes, buffer_size):
    stream = io.BufferedReader(_Replaced(Trickle(content, sizes), word, b"\x1f"), buffer_size)
    assert stream.read() == content.replace(word, b"\x1f")


@pytest.mark.parametrize("separator", ["^|^", "||", "~", "\x01", "::"])
def test_any_separator_can_be_told(tmp_path, separator):
    path = tmp_path / "x.csv"
    path.write_text(f"user{separator}item\na:b{separator}c\n")
    assert pairs(pspns.load(path, separator=separator)) == {("a:b", "c")}


@pytest.mark.parametrize("separator", ["", '"', "\n", "é"])
def test_separators_that_cannot_be(tmp_path, separator):
    (tmp_path / "x.csv").write_bytes(CONTENT)
    with pytest.raises(SettingsError, match="separator cannot be"):
        pspns.load(tmp_path / "x.csv", separator=separator)
