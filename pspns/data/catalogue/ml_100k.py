"""MovieLens-100K: 943 people and the 1,574 films they rated 3 or better, 82,520 pairs with times, split 8 : 1 : 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts
from pspns.data.catalogue._movielens import CITATION, TERMS, MovieLens
from pspns.data.download import PackagedFile

_WHOLE = Counts(users=943, items=1_574, parts=(66_016, 8_252, 8_252))


@dataclass(frozen=True, kw_only=True)
class MovieLens100K(MovieLens):
    about: ClassVar[About] = About(
        title="MovieLens-100K",
        size=_WHOLE.words(),
        origin="fetched",
        source="fetched out of the Python package recbole; or GroupLens' own u.data, put into the data folder",
        terms=TERMS,
        citation=CITATION,
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE,)
    other_names: ClassVar[tuple[str, ...]] = ("u",)
    packaged: ClassVar[PackagedFile] = PackagedFile(
        package="recbole",
        version="1.2.1",
        wheel_bytes=2_130_151,
        wheel_sha256="9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
        member="recbole/dataset_example/ml-100k/ml-100k.inter",
        member_sha256="4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    )


COMPONENT = MovieLens100K
