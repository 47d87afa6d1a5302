"""Evaluation protocols: what held-out labels may touch, fixed before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pspns.data.split import Pairs, Split
from pspns.errors import unknown_name


class Known(StrEnum):
    """Which pairs count as known, and so are never drawn or never ranked."""

    TRAIN = "train"
    TRAIN_VALID = "train+valid"
    TRAIN_PAIRS = "train+pairs"

    def to_reject(self, split: Split, positives: Pairs) -> list[Pairs]:
        """What training takes for known, noise included; `positives` are the pairs of the loss."""
        return self._pairs(split.train, split.valid, positives)

    def to_mask(self, split: Split, positives: Pairs) -> list[Pairs]:
        """What users really have: a false pair in train must not take an item out of a ranking."""
        return self._pairs(split.clean_train, split.valid, positives.only(~split.are_noise(positives)))

    def _pairs(self, train: Pairs, valid: Pairs, positives: Pairs) -> list[Pairs]:
        match self:
            case Known.TRAIN:
                return [train]
            case Known.TRAIN_VALID:
                return [train, valid]
            case Known.TRAIN_PAIRS:
                return [train, positives]


@dataclass(frozen=True)
class Protocol:
    """One frozen value; no part of it can be set alone, so that results under two rules never mix."""

    name: str
    meaning: str
    drop_held_out: bool  # are constructed pairs that are held out dropped before training?
    graph: Known  # the edges a graph model passes messages along
    reject: Known  # what a negative may not be
    mask_valid: Known  # what is left out of the ranking at validation
    mask_test: Known  # … and at the test
    select_on: str  # the part that chooses the best step: valid or test
    warning: str = ""  # printed wherever a figure under this protocol is

    @property
    def needs_validation(self) -> bool:
        return self.select_on == "valid"


STRICT = Protocol(
    name="strict",
    meaning="built from train alone; validation chooses; train and validation pairs are left out of the test ranking",
    drop_held_out=False,
    graph=Known.TRAIN,
    reject=Known.TRAIN_PAIRS,
    mask_valid=Known.TRAIN,
    mask_test=Known.TRAIN_VALID,
    select_on="valid",
)

PUBLISHED = Protocol(
    name="published",
    meaning="the rule under which the paper's figures come back; the paper does not state its test mask",
    drop_held_out=True,
    graph=Known.TRAIN,
    reject=Known.TRAIN_PAIRS,
    mask_valid=Known.TRAIN_PAIRS,
    mask_test=Known.TRAIN_PAIRS,
    select_on="valid",
    warning=(
        "held-out labels shape the candidate set: constructed pairs are left out of the ranking unless they are "
        "held out; such figures must not be compared with strict ones"
    ),
)

BEST_ON_TEST = Protocol(
    name="best-on-test",
    meaning="for comparison with outside figures only: no validation, the best step is chosen on the test",
    drop_held_out=False,
    graph=Known.TRAIN,
    reject=Known.TRAIN,
    mask_valid=Known.TRAIN,
    mask_test=Known.TRAIN,
    select_on="test",
    warning="the test chose the best step, so these figures are too good; they only serve comparison with others",
)

PROTOCOLS = {protocol.name: protocol for protocol in (STRICT, PUBLISHED, BEST_ON_TEST)}


def find_protocol(name: str) -> Protocol:
    """The protocol called `name`."""
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
