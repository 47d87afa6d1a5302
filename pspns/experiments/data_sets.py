"""The data sets of experiments: what they are called, and which of the paper's they stand beside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownData:
    title: str
    printed_as: str = ""
    """The paper's data set whose figures stand beside; empty: the paper has none like it."""
    note: str = ""
    """Why its figures and the paper's are not of the same data; stands in every table."""


_KNOWN = {
    "ml-1m": KnownData("MovieLens-1M", "ml-1m"),
    "epinions": KnownData("Epinions", "epinions"),
    "ml-1m-by-user": KnownData("MovieLens-1M, split by user", "ml-1m", "split 8 : 1 : 1 within each user"),
    "epinions-by-user": KnownData("Epinions, split by user", "epinions", "split 7 : 1 : 2 within each user"),
    "pinterest": KnownData(
        "Pinterest (part)", "pinterest", "the first 37,501 of the paper's 55,187 users, repeated pins counted once"
    ),
    "yelp2018-part": KnownData(
        "Yelp2018 (stand-in)", "yelp", "13,438 users of another edition of Yelp, in place of the paper's 29,061"
    ),
}


def known_data(name: str) -> KnownData:
    """Any other data set stands for itself."""
    return _KNOWN.get(name, KnownData(name))
