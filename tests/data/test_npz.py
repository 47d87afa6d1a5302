"""Sparse matrices in files, and .npz files that claim what they do not hold."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from scipy import sparse

import pspns
from pspns.data.arrays import write_arrays
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.data.splits.random import RandomSplit
from pspns.errors import DataError, SettingsError


def pairs(found):
    return set(zip(found.user_ids[found.users].tolist(), found.item_ids[found.items].tolist(), strict=True))


MATRIX = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 0.5]])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("packed", [True, False])
def test_every_kind_that_scipy_writes(tmp_path, kind, packed):
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_array(MATRIX).asformat(kind), compressed=packed)
    found = pspns.load(tmp_path / "x.npz")
    assert pairs(found) == {(0, 1), (1, 0), (2, 2)}
    assert "a sparse matrix of 3 × 3: rows are users, columns items" in found.facts


def test_stored_zeros_are_no_interactions(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(([1.0, 0.0], [0, 1], [0, 2]), shape=(1, 2)))
    assert pairs(pspns.load(tmp_path / "x.npz")) == {(0, 0)}


@pytest.mark.parametrize("data", [
    Interactions.from_arrays(["b", "a"], [1, 2], times=[3, 4]),
    GivenSplit(Interactions.from_arrays([1, 2], [1, 2]), np.array([0, 2], np.int8), "here"),
])  # fmt: skip
def test_data_written_before_come_back(tmp_path, data):
    write_arrays(data, tmp_path / "x.npz")
    found = pspns.load(tmp_path / "x.npz")
    assert type(found) is type(data)
    inside = found.interactions if isinstance(found, GivenSplit) else found
    assert len(inside) == 2
    with pytest.raises(SettingsError, match="min_rating cannot be set"):
        pspns.load(tmp_path / "x.npz", min_rating=3)


def test_the_usual_split_travels(tmp_path):
    from dataclasses import replace

    data = replace(Interactions.from_arrays([1, 2], [1, 2]), usual_split=RandomSplit(test_share=0.2))
    write_arrays(data, tmp_path / "x.npz")
    assert pspns.load(tmp_path / "x.npz").usual_split == RandomSplit(test_share=0.2)


def written(path, **arrays):
    np.savez(path, **arrays)
    return path


def csr(**changes):
    good = {"indices": [1, 0], "indptr": [0, 1, 2], "format": b"csr", "shape": (2, 2), "data": [1.0, 1.0]}
    return {**good, **changes}


GOOD = {
    "format": 1,
    "users": np.array([0, 1]),
    "items": np.array([0, 1]),
    "user_ids": np.array([5, 6]),
    "item_ids": np.array([7, 8]),
    "facts": np.array([], dtype=np.str_),
}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"a": [1]}, "holds the arrays a; expected a sparse matrix"),
        (csr(indices=[9, 0]), "damaged"),
        (csr(indices=[-1, 0]), "damaged"),
        (csr(indptr=[0, 5, 2]), "damaged"),
        (csr(format=b"xyz"), "damaged"),
        (csr(shape=(2,)), "damaged"),
        (csr(shape=(-2, 2)), "damaged"),
        (csr(data=np.array([None, 1], dtype=object)), "holds Python objects"),
        (csr(data=[0.0, 0.0]), "there are no rows"),
        ({**GOOD, "users": np.array([0, 9])}, "users point outside of the 2 user_ids"),
        ({**GOOD, "users": np.array([-1, 1])}, "users point outside"),
        ({**GOOD, "items": np.array([0])}, "must be equally many"),
        ({**GOOD, "users": np.array([0.0, 1.0])}, "users is float64 of 1 dimensions"),
        ({**GOOD, "users": np.array(3)}, "users is int64 of 0 dimensions"),
        ({**GOOD, "users": np.array([], int), "items": np.array([], int)}, "there is no pair"),
        ({**GOOD, "user_ids": np.array([6, 5])}, "user_ids are not in order, or repeat"),
        ({**GOOD, "item_ids": np.array(["a|", "a|"])}, "item_ids are not in order, or repeat"),
        ({**GOOD, "facts": np.array(7)}, "facts is int64"),
        ({**GOOD, "times": np.array([1.0, np.nan])}, "times are not all finite"),
        ({**GOOD, "times": np.array(["a", "b"])}, "times is <U1"),
        ({**GOOD, "parts": np.array([0, 1], np.int8)}, "the array source is missing"),
        ({**GOOD, "parts": np.array([1, 2], np.int8), "source": "x"}, "parts must be 0 .train., .* and some train"),
        ({**GOOD, "parts": np.array([0.0, 1.0]), "source": "x"}, "parts is float64"),
        ({**GOOD, "format": [1, 1]}, "another version"),
        ({**GOOD, "usual_split": "[" * 100_000}, "which is no split"),
        ({**GOOD, "users": np.array([1, 0])}, "not in order"),
        ({**GOOD, "parts": np.array([0, 7], np.int8), "source": "x"}, "parts must be 0 .train., 1 .valid., 2 .test."),
        ({**GOOD, "usual_split": '{"name": "os:system"}'}, "which is no split"),
        ({**GOOD, "usual_split": '{"name": "random", "x": 1}'}, "which is no split"),
        ({**GOOD, "usual_split": "]"}, "which is no split"),
        ({**GOOD, "format": 99}, "another version"),
    ],
)  # fmt: skip
def test_what_cannot_be(tmp_path, arrays, expected):
    path = written(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=expected) as error:
        pspns.load(path)
    assert str(error.value).startswith(str(path))


def test_a_shape_that_the_bytes_do_not_have(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("data.npy", header.getvalue() + bytes(8))
    with pytest.raises(DataError, match=r"data\.npy claims the shape \(1000000000000,\)"):
        pspns.load(tmp_path / "x.npz")


def test_a_bomb(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("data.npy", "w") as file,
    ):
        for _ in range(600):
            file.write(bytes(1 << 20))
    with pytest.raises(DataError, match="more than 200 times its size"):
        pspns.load(tmp_path / "x.npz")


def test_options_of_tables_do_not_apply(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(MATRIX))
    with pytest.raises(SettingsError, match="header and separator cannot be set for a sparse matrix"):
        pspns.load(tmp_path / "x.npz", header=True, separator=",")
