import dataclasses

import numpy as np
import pytest
from toy import given_split

from pspns.data.split import Pairs, Split
from pspns.errors import SettingsError
from pspns.evaluation.protocol import BEST_ON_TEST, PROTOCOLS, PUBLISHED, STRICT, Known, find_protocol


def test_the_three_protocols_are_what_the_decision_says():
    assert list(PROTOCOLS) == ["strict", "published", "best-on-test"]
    assert (STRICT.mask_valid, STRICT.mask_test, STRICT.select_on) == (Known.TRAIN, Known.TRAIN_VALID, "valid")
    assert (PUBLISHED.mask_valid, PUBLISHED.mask_test) == (Known.TRAIN_PAIRS, Known.TRAIN_PAIRS)
    assert PUBLISHED.select_on == "valid"
    assert (BEST_ON_TEST.mask_test, BEST_ON_TEST.select_on) == (Known.TRAIN, "test")
    assert [p.drop_held_out for p in PROTOCOLS.values()] == [False, True, False]
    assert [str(p.reject) for p in PROTOCOLS.values()] == ["train+pairs", "train+pairs", "train"]
    assert {p.graph for p in PROTOCOLS.values()} == {Known.TRAIN}


def test_only_strict_goes_without_a_warning():
    assert STRICT.warning == ""
    assert "held-out labels shape the candidate set" in PUBLISHED.warning
    assert "the test chose the best step" in BEST_ON_TEST.warning
    assert "does not state its test mask" in PUBLISHED.meaning


def test_a_protocol_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        STRICT.mask_test = Known.TRAIN


def test_an_unknown_one_names_the_nearest():
    with pytest.raises(SettingsError, match=r"no protocol named 'strct'.*did you mean 'strict'"):
        find_protocol("strct")


def test_masks_hold_what_their_names_say():
    given = given_split(20, 15, 60)
    split = Split.from_parts(given.interactions, given.parts, "toy")
    injected = Pairs(split.test.users[:3], split.test.items[:3])
    positives = Pairs.sorted_from(
        np.concatenate([split.train.users, injected.users]), np.concatenate([split.train.items, injected.items])
    )

    def keys(parts):
        return {(u, i) for part in parts for u, i in zip(part.users.tolist(), part.items.tolist(), strict=True)}

    train, valid = keys([split.train]), keys([split.valid])
    assert keys(Known.TRAIN.pairs(split, positives)) == train
    assert keys(Known.TRAIN_VALID.pairs(split, positives)) == train | valid
    assert keys(Known.TRAIN_PAIRS.pairs(split, positives)) == train | keys([injected])
