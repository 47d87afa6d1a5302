"""Epinions: 11,496 people and the 11,656 products they rated, 327,942 pairs, split 7 : 1 : 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts, LocalDataset
from pspns.data.splits.random import RandomSplit

_WHOLE = Counts(users=11_496, items=11_656, parts=(229_559, 32_794, 65_589))


@dataclass(frozen=True, kw_only=True)
class Epinions(LocalDataset):
    about: ClassVar[About] = About(
        title="Epinions",
        size=_WHOLE.words(),
        origin="provided",
        source=(
            "ask the authors of a paper that prints these counts for the pairs they used, in which everyone has 10 or "
            "more, and write them as lines of a user, a tab and an item; no place to fetch them from could be verified"
        ),
        terms="Reviews that people wrote for the shopping site Epinions. For research use.",
        citation=(
            "Epinions was collected more than once, and where this selection comes from is not known: cite the paper "
            "that you have it from. Widely used: Paolo Massa and Paolo Avesani. 2007. Trust-aware Recommender "
            "Systems. In Proceedings of RecSys '07, 17–24. doi:10.1145/1297231.1297235"
        ),
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE,)
    split: ClassVar[Any] = RandomSplit(valid_share=0.1, test_share=0.2)


COMPONENT = Epinions
