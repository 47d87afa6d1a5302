"""Carving a validation part out of a published train part."""

from __future__ import annotations

import numpy as np
import pytest

from pspns.data.carve import carve_validation
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Part
from pspns.errors import DataError, SettingsError


def published(n_train: int = 90, n_test: int = 10, n_valid: int = 0) -> GivenSplit:
    parts = np.repeat([Part.TRAIN, Part.TEST, Part.VALID], [n_train, n_test, n_valid]).astype(np.int8)
    # Test pairs lie between train pairs when sorted by id: 7 and the number of pairs share no factor.
    ids = np.arange(len(parts)) * 7 % len(parts)
    pairs = Interactions.from_arrays(ids, ids)
    by_id = np.empty_like(parts)
    by_id[ids] = parts
    return GivenSplit(pairs, by_id, "a folder")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_ninth_of_train_becomes_validation_and_the_test_stays() -> None:
    given = published()
    before = given.parts.copy()
    carved = carve_validation(given, rng())
    assert np.bincount(carved.parts).tolist() == [80, 10, 10]
    assert ((carved.parts == Part.TEST) == (before == Part.TEST)).all()
    assert given.parts.tolist() == before.tolist(), "the given split is not changed"
    assert carved.interactions is given.interactions
    assert carved.source == "a folder, 10 train pairs at random as validation"


def test_share_is_of_train() -> None:
    assert np.bincount(carve_validation(published(), rng(), share=0.5).parts).tolist() == [45, 45, 10]


def test_choice_follows_the_seed() -> None:
    given = published()
    first, again, other = (carve_validation(given, rng(seed)).parts.tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_test_pairs_do_not_influence_the_choice() -> None:
    def chosen(n_test: int) -> list[int]:
        pairs = Interactions.from_arrays(np.arange(50 + n_test), np.arange(50 + n_test))
        parts = np.where(np.arange(50 + n_test) < 50, Part.TRAIN, Part.TEST).astype(np.int8)
        carved = carve_validation(GivenSplit(pairs, parts, "x"), rng())
        return np.flatnonzero(carved.parts == Part.VALID).tolist()

    assert chosen(5) == chosen(17)


def test_present_validation_is_not_overwritten() -> None:
    with pytest.raises(DataError, match=r"a folder already has a validation part \(4 pairs\)"):
        carve_validation(published(n_valid=4, n_train=89), rng())


def test_too_little_train_is_an_error() -> None:
    with pytest.raises(DataError, match="4 train pairs"):
        carve_validation(published(n_train=4, n_test=1), rng())


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2])
def test_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        carve_validation(published(), rng(), share=share)
