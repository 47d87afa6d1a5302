import dataclasses

import numpy as np
import pytest
from toy import given_split

from pspns.data.noise import add_noise
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
    for pairs in (Known.to_mask, Known.to_reject):  # which are the same where there is no noise
        assert keys(pairs(Known.TRAIN, split, positives)) == train
        assert keys(pairs(Known.TRAIN_VALID, split, positives)) == train | valid
        assert keys(pairs(Known.TRAIN_PAIRS, split, positives)) == train | keys([injected])


def test_noise_is_rejected_as_a_negative_but_never_masked():
    given = given_split(20, 15, 60)
    clean = Split.from_parts(given.interactions, given.parts, "toy")
    split = add_noise(clean, 0.5, np.random.default_rng(0))
    positives = Pairs.sorted_from(
        np.concatenate([split.train.users, clean.test.users[:3]]),
        np.concatenate([split.train.items, clean.test.items[:3]]),
    )

    def keys(parts):
        return {(u, i) for part in parts for u, i in zip(part.users.tolist(), part.items.tolist(), strict=True)}

    noise, train, valid, test = (keys([part]) for part in (split.noise, clean.train, clean.valid, clean.test))
    assert len(noise & valid) > 0, "or the next lines would not tell what happens to false pairs that are held out"
    assert keys(Known.TRAIN.to_mask(split, positives)) == train
    assert keys(Known.TRAIN_VALID.to_mask(split, positives)) == train | valid
    injected = keys([Pairs(clean.test.users[:3], clean.test.items[:3])])
    assert keys(Known.TRAIN_PAIRS.to_mask(split, positives)) == train | (injected - noise)
    assert keys(Known.TRAIN.to_reject(split, positives)) == train | noise
    assert keys(Known.TRAIN_VALID.to_reject(split, positives)) == train | noise | valid
    assert keys(Known.TRAIN_PAIRS.to_reject(split, positives)) == train | noise | injected
    assert not train & noise
    assert injected <= test
