"""What is known of a data set before it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["generated", "fetched", "provided"]


@dataclass(frozen=True, kw_only=True)
class About:
    title: str  # as its publishers call it
    size: str  # users × items and pairs, in words
    origin: Origin  # made by this program; in its reach; only in that of its users
    source: str  # how it is obtained, in words
    terms: str
    citation: str
