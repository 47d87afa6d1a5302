"""Pinterest: 55,187 people and the 9,916 images they pinned, two of each held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts, LocalDataset

# SRNS counts rows, and people pin an image twice: here each pair counts once, in train rather than where it is
# held out. How many then remain is not known, so the rows are only an upper limit.
_WHOLE = Counts(users=55_187, items=9_916, parts=(1_390_435, 55_187, 55_187), with_repeats=True)
_FIRST_USERS = Counts(
    users=37_501,
    items=9_836,
    parts=(925_152, 37_501, 37_501),
    note="a part of the data set: the first 37,501 of 55,187 users",
)


@dataclass(frozen=True, kw_only=True)
class Pinterest(LocalDataset):
    about: ClassVar[About] = About(
        title="Pinterest",
        size=_WHOLE.words(),
        origin="provided",
        source=(
            "take the Pinterest data of NCF in the train, validation and test parts that the authors of SRNS publish "
            "beside their code (some in Python's pickle format, which can run code when opened and is not read here), "
            "and write each part as lines of a user, a tab and an item"
        ),
        terms="Pins that people made public on Pinterest. For research use.",
        citation=(
            "Xue Geng, Hanwang Zhang, Jingwen Bian, Tat-Seng Chua. 2015. Learning Image and User Features for "
            "Recommendation in Social Networks. In Proceedings of ICCV 2015, 4274–4282. The parts: Jingtao Ding, "
            "Yuhan Quan, Quanming Yao, Yong Li, Depeng Jin. 2020. Simplify and Robustify Negative Sampling for "
            "Implicit Collaborative Filtering. In NeurIPS 2020"
        ),
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE, _FIRST_USERS)


COMPONENT = Pinterest
