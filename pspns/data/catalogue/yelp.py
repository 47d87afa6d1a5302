"""Yelp: 29,601 people and the 24,734 businesses they reviewed, 1,374,594 pairs, split 8 : 1 : 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts, LocalDataset
from pspns.data.splits.random import RandomSplit

# The paper prints 29,061 users, two digits swapped; LightGCL, whose data these are, has 29,601.
_WHOLE = Counts(users=29_601, items=24_734, parts=(1_099_676, 137_459, 137_459))


@dataclass(frozen=True, kw_only=True)
class Yelp(LocalDataset):
    about: ClassVar[About] = About(
        title="Yelp",
        size=_WHOLE.words(),
        origin="provided",
        source=(
            "take the Yelp data that the authors of LightGCL publish beside their code: train and test matrices in "
            "Python's pickle format, which can run code when opened and is not read here. Open them where that does "
            "no harm, and write the pairs of both into one file, as lines of a user, a tab and an item"
        ),
        terms="Out of the Yelp Open Dataset, for research use under the agreement that Yelp publishes with it.",
        citation=(
            "Xuheng Cai, Chao Huang, Lianghao Xia, Xubin Ren. 2023. LightGCL: Simple Yet Effective Graph Contrastive "
            "Learning for Recommendation. In Proceedings of ICLR 2023. And: Yelp Open Dataset, Yelp Inc."
        ),
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE,)
    split: ClassVar[Any] = RandomSplit()


COMPONENT = Yelp
