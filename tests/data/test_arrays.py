import numpy as np
import pytest
from toy import given_split

from pspns.data.arrays import read_arrays, write_arrays
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.errors import DataError


def same(one: Interactions, two: Interactions) -> bool:
    arrays = ("users", "items", "user_ids", "item_ids")
    return one.facts == two.facts and all(np.array_equal(getattr(one, a), getattr(two, a)) for a in arrays)


def test_data_come_back_as_they_were(tmp_path):
    texts = Interactions.from_arrays(["007", "ü\0", "a|", ""[:0] + "7"], [2**63 - 1, 5, 5, -1], times=[1, 2, 3, 4])
    write_arrays(texts, tmp_path / "x.npz")
    back = read_arrays(tmp_path / "x.npz")
    assert isinstance(back, Interactions)
    assert same(texts, back)
    assert back.user_ids.dtype == object
    assert np.array_equal(back.times, texts.times)


def test_a_given_split_keeps_its_parts(tmp_path):
    given = given_split(10, 8, 30)
    write_arrays(given, tmp_path / "x.npz")
    back = read_arrays(tmp_path / "x.npz")
    assert isinstance(back, GivenSplit)
    assert same(given.interactions, back.interactions)
    assert np.array_equal(given.parts, back.parts)
    assert back.source == given.source


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no arrays")
    np.savez(tmp_path / "other.npz", users=[1, 2])
    np.savez(tmp_path / "objects.npz", format=np.array([object()], dtype=object))
    for name, reason in (
        ("text", "not a readable"),
        ("other", "was not written by pspns"),
        ("objects", "holds Python objects"),
        ("none", "not a readable"),
    ):
        with pytest.raises(DataError, match=reason):
            read_arrays(tmp_path / f"{name}.npz")
